"""Starting and resuming runs: from what was asked for to a population in its loop."""

import re
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from mrq.environments.making import Environment, make_environment
from mrq.environments.spaces import Fault
from mrq.environments.workers import Environments, Guarded
from mrq.errors import MRQError
from mrq.randomness import environment_seed
from mrq.replay.buffer import reserve, slots_needed
from mrq.training.checkpoint import latest_checkpoint, read_arrays, read_counters, read_tensors
from mrq.training.compiling import compile_if_possible, worth_compiling
from mrq.training.interruption import Interruption
from mrq.training.loop import train
from mrq.training.population import Population
from mrq.training.progress import ProgressBar
from mrq.training.run_folder import RunFolder, create_run_folder, refuse_existing
from mrq.training.settings import Settings, checked_seeds, chosen_device

Say = Callable[[str], None]


def start(task: str, seeds: tuple[int, ...], settings: Settings, root: Path, say: Say) -> list[RunFolder]:
    """Trains one agent a seed, each in a folder of its own under `root`; returns the folders."""
    paths = [run_path(root, task, seed) for seed in checked_seeds(seeds)]
    for path in paths:
        refuse_existing(path)
    device = chosen_device(settings.device)
    environments, evaluation_environments = (make_environments(task, seeds) for _ in range(2))
    probe(evaluation_environments)
    population = Population(seeds, environments, settings.hyperparameters, device)
    make_room(population, settings, say)
    if worth_compiling(settings, device):
        compile_if_possible(population.learner, say, required=settings.compile == "on")
    compiled = population.learner.compiled
    spaces = describe_spaces(environments.environments[0].environment)
    runs = [
        create_run_folder(path, task, seed, settings, compiled, spaces) for path, seed in zip(paths, seeds, strict=True)
    ]
    for run in runs:
        run.lock()
    _train(population, evaluation_environments, runs, settings)
    return runs


def resume(folders: Sequence[Path], steps: int | None, say: Say) -> list[RunFolder]:
    """Goes on with runs where they stopped; those that stand at the same place train together."""
    runs = [RunFolder(folder) for folder in folders]
    for run in runs:
        run.lock()
        if steps is not None:
            run.extend(steps)
    counters = {run.path: _counters(run) for run in runs}

    def place(run: RunFolder) -> str:
        shared = {
            name: counters[run.path].get(name) for name in ("steps", "encoder_updates", "updates", "evaluated_at")
        }
        return repr((run.task, run.settings, run.compiled, shared))

    for run in runs:
        if counters[run.path].get("steps", 0) >= run.settings.steps:
            raise MRQError(
                f"the run in {run.path} has finished its {counters[run.path]['steps']:,} steps; "
                f"give more to go on, such as --steps {2 * counters[run.path]['steps']}."
            )
    for _, group in groupby(sorted(runs, key=place), key=place):
        _resume_together(list(group), say)
    return runs


def _resume_together(runs: list[RunFolder], say: Say) -> None:
    settings, seeds = runs[0].settings, tuple(run.seed for run in runs)
    environments, evaluation_environments = (make_environments(runs[0].task, checked_seeds(seeds)) for _ in range(2))
    population = Population(seeds, environments, settings.hyperparameters, chosen_device(settings.device))
    make_room(population, settings, say)
    if runs[0].compiled:
        compile_if_possible(population.learner, say)
    for agent, run in enumerate(runs):
        load(population, agent, run, say)
        run.rewind(population.steps)
    say(f"going on at step {population.steps:,} of {settings.steps:,}")
    _train(population, evaluation_environments, runs, settings)


def load(population: Population, agent: int, run: RunFolder, say: Say) -> None:
    """Brings one agent to where its run's last checkpoint was; one that has none starts from the beginning."""
    checkpoint = latest_checkpoint(run.checkpoints)
    if checkpoint is None:
        return
    check_spaces(run, population.environments.environments[agent].environment)
    sentence = population.load_state_of(
        agent, read_tensors(checkpoint), read_arrays(checkpoint), read_counters(checkpoint)
    )
    if sentence is not None:
        say(sentence)


def make_environments(task: str, seeds: Sequence[int], **options: Any) -> Environments:
    return guarded([make_environment(task, **options) for _ in seeds], task, seeds)


def guarded(environments: Sequence[Environment], task: str, seeds: Sequence[int]) -> Environments:
    names = [f"{task} (seed {seed})" for seed in seeds]
    return Environments([Guarded(environment) for environment in environments], names)


def make_room(population: Population, settings: Settings, say: Say) -> None:
    """Says what the replay will take, or refuses, and then takes it."""
    h = settings.hyperparameters
    slots = slots_needed(settings.steps, h)
    say(reserve(len(population.seeds), population.environments.spec, slots, population.device))
    population.make_room(settings.steps)
    if settings.steps <= h.random_steps:
        say(f"note: the first {h.random_steps:,} steps are random, so nothing will be learned")


def probe(environments: Environments) -> None:
    """Finds out before anything is written whether an environment works at all."""
    spec = environments.spec
    action = np.eye(spec.action_size, dtype=np.float32)[0] if spec.discrete else np.zeros(spec.action_size, np.float32)
    try:
        environments.environments[0].reset(environment_seed(0, 0))
        environments.environments[0].step(action)
    except Fault as fault:
        raise MRQError(f"the environment of {environments.names[0]} does not work: {fault}.") from fault


def describe_spaces(environment: Environment) -> dict[str, str]:
    return {"observation": repr(environment.observation_space), "action": repr(environment.action_space)}


def check_spaces(run: RunFolder, environment: Environment) -> None:
    for kind, space in describe_spaces(environment).items():
        if space != run.spaces[kind]:
            raise MRQError(
                f"the run in {run.path} was trained with the {kind} space {run.spaces[kind]} and the environment "
                f"now has {space}; use the environment it was trained with."
            )


def run_path(root: Path, task: str, seed: int) -> Path:
    """root/task/seed-N, the task as it is but for what does not belong into a file name."""
    return root / re.sub(r"[^\w./+-]+", "-", task).strip("/.") / f"seed-{seed}"


def _counters(run: RunFolder) -> dict[str, Any]:
    checkpoint = latest_checkpoint(run.checkpoints)
    return {} if checkpoint is None else read_counters(checkpoint)


def _train(
    population: Population, evaluation_environments: Environments, runs: list[RunFolder], settings: Settings
) -> None:
    label = f"{runs[0].task}, seed {', '.join(str(run.seed) for run in runs)}"
    period = settings.hyperparameters.target_period
    evaluated = evaluation_environments if settings.evaluate_every else None
    with ProgressBar(label, population.steps, settings.steps, period) as progress, Interruption() as interrupted:
        try:
            train(population, evaluated, runs, settings, progress, interrupted)
        finally:
            for run in runs:
                run.close()
            population.environments.close()
            evaluation_environments.close()
    if interrupted():
        folders = " ".join(str(run.path) for run in runs)
        progress.say(f"interrupted at step {population.steps:,}; go on with: mrq resume {folders}")
