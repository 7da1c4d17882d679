"""The training loop: environments -> replay -> learner -> run folders, for P agents at once."""

import time
from collections.abc import Callable, Sequence

from mrq.environments.workers import EnvironmentFault, Environments
from mrq.training.checkpoint import write_checkpoint
from mrq.training.evaluation import evaluate
from mrq.training.interruption import Interruption
from mrq.training.learning_curve import draw_learning_curve
from mrq.training.population import Population
from mrq.training.progress import ProgressBar
from mrq.training.run_folder import RunFolder
from mrq.training.settings import Settings


def train(
    population: Population,
    evaluation_environments: Environments | None,  # None: no evaluations
    runs: Sequence[RunFolder],  # one an agent, or none at all
    settings: Settings,
    progress: ProgressBar,
    interrupted: Interruption,
    on_step: Callable[[], bool | None] | None = None,  # returns False to stop
) -> None:
    """Trains until `settings.steps`, or until stopped; either way the runs end with a checkpoint."""
    random_steps, period = settings.hyperparameters.random_steps, settings.hyperparameters.target_period
    last_checkpoint = time.monotonic()
    try:
        while True:
            population.update(interrupted)  # first, since a resumed run may owe some
            if evaluation_environments is not None and _evaluation_due(population, settings):
                _evaluate(population, evaluation_environments, runs, settings, progress, interrupted)
            if interrupted() or population.steps >= settings.steps:
                break
            if time.monotonic() - last_checkpoint >= 60 * settings.checkpoint_minutes:
                save(population, runs)
                last_checkpoint = time.monotonic()
            _record_returns(population.step(), population.steps, runs)
            if population.updates > 0 and population.steps % period == 0:
                _record_metrics(population, runs, progress)
            if population.steps == random_steps:
                compiling = "; compiling takes a minute or two" if population.learner.compiled else ""
                progress.say(f"step {random_steps:,}: random steps are over, learning begins{compiling}")
                progress.restart_clock(random_steps)
            progress.show(population.steps, learning=population.updates > 0)
            if on_step is not None and on_step() is False:
                break
    except EnvironmentFault:
        save(population, runs)  # what was learned before that step is sound
        raise
    save(population, runs)


def save(population: Population, runs: Sequence[RunFolder]) -> None:
    for agent, run in enumerate(runs):
        tensors, arrays, counters = population.state_of(agent)
        write_checkpoint(run.checkpoints, tensors, arrays, counters | {"run": run.identity})


def _evaluation_due(population: Population, settings: Settings) -> bool:
    # Deviation: also at the end, so that the last row is the trained agent's.
    due = population.steps % settings.evaluate_every == 0 or population.steps == settings.steps
    return due and population.evaluated_at != population.steps


def _evaluate(
    population: Population,
    environments: Environments,
    runs: Sequence[RunFolder],
    settings: Settings,
    progress: ProgressBar,
    interrupted: Interruption,
) -> None:
    """Evaluates and records, unless interrupted: then the resumed run will evaluate."""
    began = time.monotonic()
    evaluations = evaluate(
        population.learner,
        environments,
        population.seeds,
        population.steps,
        settings.evaluation_episodes,
        interrupted=interrupted,
    )
    if evaluations is None:
        return
    population.evaluated_at = population.steps
    for evaluation, run in zip(evaluations, runs, strict=False):
        run.record_evaluation(population.steps, evaluation)
        draw_learning_curve(run)
    pairs = zip(population.seeds, evaluations, strict=True)
    texts = [f"{e.mean:,.1f} ± {e.std:,.1f} (seed {seed})" for seed, e in pairs]
    known = population.updates > 0 and progress.steps_per_second > 0
    speed = f", {progress.steps_per_second:,.1f} steps/s" if known else ""
    progress.say(f"step {population.steps:,}: return {', '.join(texts)}{speed}")
    progress.show_evaluation(sum(e.mean for e in evaluations) / len(evaluations))
    progress.leave_out(time.monotonic() - began)


def _record_returns(returns: dict[int, float], step: int, runs: Sequence[RunFolder]) -> None:
    for agent, run in enumerate(runs):
        if agent in returns:
            run.record_metrics(step, {"training/episode_return": returns[agent]})


def _record_metrics(population: Population, runs: Sequence[RunFolder], progress: ProgressBar) -> None:
    for agent, run in enumerate(runs):
        metrics = {f"learning/{name}": value for name, value in population.metrics(agent).items()}
        run.record_metrics(population.steps, metrics | {"speed/steps_per_second": progress.steps_per_second})
