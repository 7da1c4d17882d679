"""The training loop: environments -> replay -> learner -> run folders, for P agents at once."""

import time
from collections.abc import Callable, Sequence

from mrq.environments.workers import EnvironmentFault, Environments
from mrq.training.checkpoint import write_checkpoint
from mrq.training.evaluation import Evaluation, evaluate
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
            if interrupted():
                break
            if evaluation_environments is not None and _evaluation_due(population, settings):
                evaluations = evaluate(
                    population.learner,
                    evaluation_environments,
                    population.seeds,
                    population.steps,
                    settings.evaluation_episodes,
                    interrupted=interrupted,
                )
                if evaluations is None:
                    break
                population.evaluated_at = population.steps
                _record_evaluations(population, evaluations, runs, progress)
            if population.steps >= settings.steps:
                break
            if time.monotonic() - last_checkpoint >= 60 * settings.checkpoint_minutes:
                save(population, runs)
                last_checkpoint = time.monotonic()
            ended = population.step()
            for agent, episode_return in ended.items():
                for run in runs[agent : agent + 1]:
                    run.record_metrics(population.steps, {"training/episode_return": episode_return})
            if population.steps % period == 0 and population.updates > 0:
                _record_metrics(population, runs, progress)
            if population.steps == random_steps:
                progress.say(f"step {random_steps:,}: random steps are over, learning begins")
                progress.restart_clock(random_steps)
            progress.show(population.steps)
            if on_step is not None and on_step() is False:
                break
    except EnvironmentFault:
        save(population, runs)  # what was learned before that step is sound
        raise
    save(population, runs)


def save(population: Population, runs: Sequence[RunFolder]) -> None:
    for agent, run in enumerate(runs):
        write_checkpoint(run.checkpoints, *population.state_of(agent))


def _evaluation_due(population: Population, settings: Settings) -> bool:
    due = population.steps % settings.evaluate_every == 0 or population.steps == settings.steps
    return due and population.evaluated_at != population.steps


def _record_evaluations(
    population: Population, evaluations: list[Evaluation], runs: Sequence[RunFolder], progress: ProgressBar
) -> None:
    for evaluation, run in zip(evaluations, runs, strict=False):
        run.record_evaluation(population.steps, evaluation)
        draw_learning_curve(run)
    pairs = zip(population.seeds, evaluations, strict=True)
    texts = [f"{e.mean:,.1f} ± {e.std:,.1f} (seed {seed})" for seed, e in pairs]
    progress.say(f"step {population.steps:,}: return {', '.join(texts)}")
    progress.show_evaluation(sum(e.mean for e in evaluations) / len(evaluations))


def _record_metrics(population: Population, runs: Sequence[RunFolder], progress: ProgressBar) -> None:
    for agent, run in enumerate(runs):
        metrics = {f"learning/{name}": value for name, value in population.metrics(agent).items()}
        run.record_metrics(population.steps, metrics | {"speed/steps_per_second": progress.steps_per_second})
