"""The training loop: environments -> replay -> learner -> run folders, for P agents at once."""

import time
from collections.abc import Callable, Sequence

import numpy as np

from mrq.environments.stepping import EnvironmentFault
from mrq.environments.workers import AnyEnvironments
from mrq.errors import MRQError
from mrq.training.checkpoint import CheckpointFault, write_checkpoint
from mrq.training.evaluation import evaluate
from mrq.training.interruption import Interruption
from mrq.training.learning_curve import draw_learning_curve
from mrq.training.population import LossFault, Population
from mrq.training.progress import ProgressBar
from mrq.training.run_folder import RunFolder
from mrq.training.settings import Settings


def train(
    population: Population,
    evaluation_environments: AnyEnvironments | None,  # None: no evaluations
    runs: Sequence[RunFolder],  # one an agent, or none at all
    settings: Settings,
    progress: ProgressBar,
    interrupted: Interruption,
    on_step: Callable[[], bool | None] | None = None,  # returns False to stop
) -> None:
    """Trains until `settings.total_steps`, or until stopped; either way the runs end with a checkpoint.

    An agent that cannot go on is left behind, with a checkpoint if what it learned is sound; if it is the only one, its
    fault is raised.
    """
    random_steps, period = settings.hyperparameters.random_steps, settings.hyperparameters.target_period
    last_checkpoint = time.monotonic()
    began = last_checkpoint - population.seconds

    def leave_behind(agent: int, fault: MRQError) -> None:
        if not isinstance(fault, LossFault):
            try:
                save(population, runs, [agent])
            except CheckpointFault as unsaved:
                fault = EnvironmentFault(f"{fault} Besides, {unsaved}")
        if len(population.active) == 1:
            raise fault
        progress.say(f"{fault} {'The others go on.' if population.active.any() else 'It was the last.'}")

    population.on_fault = leave_behind
    population.active[:] = True  # whoever was left behind may try again,
    population.check_losses()  # unless what it learned is lost
    while population.active.any():
        population.update(interrupted)  # first, since a resumed run may owe some
        population.seconds = time.monotonic() - began
        if evaluation_environments is not None and _evaluation_due(population, settings):
            _evaluate(population, evaluation_environments, runs, settings, progress, interrupted)
            population.seconds = time.monotonic() - began
        if interrupted() or population.steps >= settings.total_steps:
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
    save(population, runs)


def save(population: Population, runs: Sequence[RunFolder], agents: Sequence[int] | None = None) -> None:
    """A checkpoint, and the curve so far, of the given agents or of all that are still in training.

    One that cannot be written keeps no other from being written.
    """
    if not runs:
        return
    if agents is None:
        population.check_losses()  # one whose losses are no numbers must not keep the others from being saved
        agents = np.flatnonzero(population.active).tolist()
    unwritten = []
    for agent in agents:
        tensors, arrays, counters = population.state_of(agent)
        try:
            write_checkpoint(runs[agent].checkpoints, tensors, arrays, counters | {"run": runs[agent].identity})
        except CheckpointFault as fault:
            unwritten.append(fault)
        draw_learning_curve(runs[agent])
    if unwritten:
        raise unwritten[0]


def _evaluation_due(population: Population, settings: Settings) -> bool:
    return settings.evaluates_at(population.steps) and population.evaluated_at != population.steps


def _evaluate(
    population: Population,
    environments: AnyEnvironments,
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
        population.agents,
        population.steps,
        settings.evaluation_episodes,
        active=population.active,
        interrupted=interrupted,
    )
    if evaluations is None:
        return
    copies = len(environments.names) // len(evaluations)
    for place, sentence in environments.failed.items():
        population.drop(place // copies, EnvironmentFault(sentence))
    population.evaluated_at = population.steps
    texts: dict[str, list[str]] = {}  # by task
    active = np.flatnonzero(population.active).tolist()
    for agent in active:
        evaluation, (task, seed) = evaluations[agent], population.agents[agent]
        texts.setdefault(task, []).append(f"{evaluation} (seed {seed})")
        if runs:
            runs[agent].record_evaluation(population.steps, evaluation, population.seconds[agent])
    known = population.updates > 0 and progress.steps_per_second > 0
    speed = f", {progress.steps_per_second:,.1f} steps/s" if known else ""
    for task, of_task in texts.items():
        name = f"{task}: " if len(texts) > 1 else ""
        progress.say(f"step {population.steps:,}: {name}return {', '.join(of_task)}{speed}")
    progress.show_evaluation(population.steps, {population.agents[a]: evaluations[a].mean for a in active})
    progress.leave_out(time.monotonic() - began)


def _record_returns(returns: dict[int, float], step: int, runs: Sequence[RunFolder]) -> None:
    if runs:
        for agent, value in returns.items():
            runs[agent].record_metrics(step, {"training/episode_return": value})


def _record_metrics(population: Population, runs: Sequence[RunFolder], progress: ProgressBar) -> None:
    if runs:
        for agent in np.flatnonzero(population.active).tolist():
            metrics = {f"learning/{name}": value for name, value in population.metrics(agent).items()}
            runs[agent].record_metrics(
                population.steps, metrics | {"speed/steps_per_second": progress.steps_per_second}
            )
