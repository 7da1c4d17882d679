"""Starting and resuming runs: from what was asked for to a population in its loop."""

import re
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from mrq.environments.making import Environment, make_environment
from mrq.environments.spaces import Fault
from mrq.environments.workers import EnvironmentFault, Environments, Guarded
from mrq.errors import MRQError
from mrq.randomness import environment_seed
from mrq.replay.buffer import reserve, slots_needed
from mrq.training.checkpoint import latest_checkpoint, read_arrays, read_counters, read_tensors
from mrq.training.compiling import compile_if_possible, worth_compiling
from mrq.training.interruption import Interruption
from mrq.training.loop import train
from mrq.training.population import COUNTERS, Population
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
    _train(population, evaluation_environments, runs, settings, say)
    return runs


def resume(folders: Sequence[Path], steps: int | None, say: Say) -> list[RunFolder]:
    """Goes on with runs where they stopped; those that stand at the same place train together."""
    if not folders:
        raise MRQError("give the run folders to resume, such as runs/Pendulum-v1/seed-0.")
    runs = [RunFolder(folder) for folder in folders]
    places = {}
    for run in runs:
        run.lock()
        counters = counters_of(run, latest_checkpoint(run.checkpoints))
        done = counters.get("steps", 0)
        if done >= (steps or run.settings.steps):
            raise MRQError(
                f"the run in {run.path} has finished its {done:,} steps; go on with more, such as --steps {2 * done}."
            )
        places[run.path] = [counters.get(name) for name in COUNTERS]
    if steps is not None:
        for run in runs:
            run.extend(steps)

    def place(run: RunFolder) -> str:
        return repr((run.task, run.settings, run.compiled, places[run.path]))

    for _, group in groupby(sorted(runs, key=place), key=place):
        if _resume_together(list(group), say):
            break
    return runs


def _resume_together(runs: list[RunFolder], say: Say) -> bool:
    """True if it was interrupted."""
    settings, seeds = runs[0].settings, tuple(run.seed for run in runs)
    environments, evaluation_environments = (make_environments(runs[0].task, checked_seeds(seeds)) for _ in range(2))
    population = Population(seeds, environments, settings.hyperparameters, chosen_device(settings.device))
    make_room(population, settings, say)
    if runs[0].compiled:
        compile_if_possible(population.learner, say)
    for agent, run in enumerate(runs):
        load(population, agent, run, say)
        run.rewind(population.evaluated_at)
    say(f"going on at step {population.steps:,} of {settings.steps:,}")
    return _train(population, evaluation_environments, runs, settings, say)


def load(population: Population, agent: int, run: RunFolder, say: Say) -> None:
    """Brings one agent to where its run's last checkpoint was; one that has none starts from the beginning."""
    checkpoint = latest_checkpoint(run.checkpoints)
    if checkpoint is None:
        return
    check_spaces(run, population.environments.environments[agent].environment)
    counters = counters_of(run, checkpoint)
    sentence = population.load_state_of(agent, read_tensors(checkpoint), read_arrays(checkpoint), counters)
    if sentence is not None:
        say(sentence)


def counters_of(run: RunFolder, checkpoint: Path | None) -> dict[str, Any]:
    """Those of a checkpoint of this run, or none; refuses a checkpoint that another run.json belongs to."""
    if checkpoint is None:
        return {}
    counters = read_counters(checkpoint)
    if counters["run"] != run.identity:
        raise MRQError(
            f"the task, seed or hyperparameters in {run.path / 'run.json'} are not those of its checkpoint; "
            "restore the file from a copy."
        )
    return counters


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
    """root/task/seed-N, the task as it is but for what does not belong into a path."""
    parts = [re.sub(r"[^\w.+-]+", "-", part) for part in task.split("/")]
    return root.joinpath(*(part for part in parts if part.strip(".")), f"seed-{seed}")


def train_runs(
    population: Population,
    evaluation_environments: Environments | None,
    runs: Sequence[RunFolder],
    settings: Settings,
    shown: bool = True,
    on_step: Callable[[], bool | None] | None = None,
) -> Interruption:
    """The loop with its bar and its signals, and what must be put away afterwards."""
    names, period = population.environments.names, settings.hyperparameters.target_period
    with (
        ProgressBar(", ".join(names), population.steps, settings.steps, period, shown) as progress,
        Interruption() as interrupted,
    ):
        try:
            train(population, evaluation_environments, runs, settings, progress, interrupted, on_step)
        except EnvironmentFault as fault:
            population.over[:] = True  # the environments are no longer where the replay believes them
            if not runs:
                raise
            raise EnvironmentFault(
                f"{fault} What was learned is kept; mend the environment, then go on with: {resume_command(runs)}"
            ) from fault
        finally:
            for run in runs:
                run.close()
            if evaluation_environments is not None:
                evaluation_environments.close()
    return interrupted


def resume_command(runs: Sequence[RunFolder]) -> str:
    return f"{program()} resume {' '.join(shlex.quote(str(run.path)) for run in runs)}"


def program() -> str:
    """How this program can be called again, as shortly as it can be."""
    if shutil.which("mrq") is not None:
        return "mrq"
    return sys.argv[0] if Path(sys.argv[0]).name == "mrq" else "python -m mrq"


def _train(
    population: Population, evaluation_environments: Environments, runs: list[RunFolder], settings: Settings, say: Say
) -> bool:
    """True if it was interrupted."""
    try:
        evaluated = evaluation_environments if settings.evaluate_every else None
        interrupted = train_runs(population, evaluated, runs, settings)
    finally:
        population.environments.close()
    if interrupted():
        say(f"interrupted at step {population.steps:,}; go on with: {resume_command(runs)}")
    return interrupted()
