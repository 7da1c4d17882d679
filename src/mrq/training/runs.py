"""Starting and resuming runs: from what was asked for to a population in its loop."""

import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from mrq.environments.probing import Probe, probe
from mrq.environments.stepping import EnvironmentFault
from mrq.environments.tasks import full_name
from mrq.environments.workers import AnyEnvironments
from mrq.errors import MRQError
from mrq.interface import Agent
from mrq.replay.buffer import reserve, slots_needed
from mrq.training.checkpoint import CheckpointFault
from mrq.training.compiling import compile_if_possible, worth_compiling
from mrq.training.devices import chosen_device, overlaps, set_precision
from mrq.training.environments import evaluation_environments, make_environments
from mrq.training.interruption import Interruption
from mrq.training.loop import train
from mrq.training.population import COUNTERS, Population
from mrq.training.progress import ProgressBar, Watch
from mrq.training.run_folder import RunFolder, State, create_run_folder, refuse_existing, run_path
from mrq.training.settings import Settings, checked_seeds

Say = Callable[[str], None]


class Outcome(NamedTuple):
    runs: list[RunFolder]
    failed: list[RunFolder]  # those of them that broke off
    interrupted: bool


def agents_of(tasks: Sequence[str], seeds: tuple[int, ...]) -> list[Agent]:
    """One a task and seed."""
    if not tasks:
        raise MRQError("give a task, such as Pendulum-v1, or several tasks of one kind.")
    if len({full_name(task) for task in tasks}) < len(tasks):
        raise MRQError(f"the tasks are {list(tasks)}; give different ones, and several --seeds for more of one.")
    return [Agent(task, seed) for task in tasks for seed in checked_seeds(seeds)]


def start(agents: Sequence[Agent], settings: Settings, root: Path, say: Say, watch: Watch | None = None) -> Outcome:
    """Trains the agents together, each in a folder of its own under `root`."""
    tasks = list(dict.fromkeys(agent.task for agent in agents))
    settings = settings.completed(tasks)
    paths = [run_path(root, *agent) for agent in agents]
    for path in paths:
        refuse_existing(path)
    device = chosen_device(settings.device)
    probes = probe(tasks, settings.environment_timeout)
    population = make_population(agents, probes, settings, worth_compiling(settings, device), say)
    with closing(population.environments):
        evaluated = evaluation_environments(agents, probes, settings)
        compiled = population.learner.compiled
        runs: list[RunFolder] = []
        try:
            for path, agent in zip(paths, agents, strict=True):
                spaces, parameters = probes[agent.task].spaces, population.learner.parameters_of(len(runs))
                runs.append(create_run_folder(path, *agent, settings, compiled, spaces, parameters))
        except MRQError:
            for run in runs:
                run.close()
                shutil.rmtree(run.path, ignore_errors=True)
            raise
        return _train(population, evaluated, runs, settings, say, watch)


def resume(
    folders: Sequence[Path],
    steps: int | None,
    say: Say,
    watch: Watch | None = None,
    machine: Settings | None = None,  # whose device, processes and times are taken rather than the runs'
) -> Outcome:
    """Goes on with runs where they stopped; those that stand at the same place train together."""
    if not folders:
        raise MRQError("give the run folders to resume, such as runs/Pendulum-v1/seed-0.")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise MRQError("a run folder is given twice; give each once.")
    runs = [RunFolder(folder.absolute()) for folder in folders]
    with ExitStack() as stack:
        for run in runs:
            stack.callback(run.close)
        return _resume(runs, steps, say, watch, machine)


def _resume(
    runs: list[RunFolder], steps: int | None, say: Say, watch: Watch | None, machine: Settings | None
) -> Outcome:
    for run in runs:
        run.refuse_baseline()
        if steps is not None and steps < run.step:
            raise MRQError(f"the run in {run.path} has come to step {run.step:,} already; --steps must be more.")
    finished = [run for run in runs if steps in (None, run.step) and not run.unfinished]
    for run in finished:
        sentence = f"the run in {run.path} has finished its {run.step:,} steps"
        if len(finished) == len(runs):
            raise MRQError(f"{sentence}; go on with more, such as --steps {2 * run.step}.")
        say(f"{sentence}; the others go on.")
    runs = [run for run in runs if run not in finished]
    for run in runs:
        if steps is not None:
            run.settings = replace(run.settings, steps=steps)
        if machine is not None:
            run.settings = run.settings.on_machine_of(machine)
    states: dict[RunFolder, State | None] = {}
    for run in runs:
        try:
            run.lock()
            states[run] = run.saved_state()
        except MRQError as error:
            if len(runs) == 1:
                raise
            say(f"{run.agent.name}: {error}")
    timeout = max((run.settings.environment_timeout for run in states), default=0.0)
    probes = probe(list(dict.fromkeys(run.task for run in states)), timeout)
    for run in states:
        run.check_spaces(probes[run.task].spaces)
    for run in states:
        run.extend(run.settings.total_steps)  # also those whose turn an interruption does not let come

    def place(run: RunFolder) -> str:
        spec = probes[run.task].spec
        kind = (spec.frame_shape if spec.image else None, spec.history, spec.discrete)
        state = states[run]
        counters = None if state is None else [state[-1].get(name) for name in COUNTERS]
        return repr((run.settings, run.compiled, counters, kind))

    groups = [list(group) for _, group in groupby(sorted(states, key=place), key=place)]
    failed, interrupted = [run for run in runs if run not in states], False
    for group in groups:
        try:
            _, broken_off, interrupted = _resume_together(group, states, probes, say, watch)
        except MRQError as error:
            if len(runs) == len(group):
                raise
            for run in group:
                say(f"{run.agent.name}: {error}")
            broken_off = group
        failed += broken_off
        if interrupted:
            break
    return Outcome(runs, failed, interrupted)


def _resume_together(
    runs: list[RunFolder],
    states: dict[RunFolder, State | None],
    probes: dict[str, Probe],
    say: Say,
    watch: Watch | None,
) -> Outcome:
    settings, agents = runs[0].settings, [run.agent for run in runs]
    population = make_population(agents, probes, settings, runs[0].compiled, say)
    with closing(population.environments):
        for agent, run in enumerate(runs):
            load(population, agent, run, states.pop(run), say)  # not kept: its files, which are mapped, will go
        for run in runs:
            run.rewind(population.evaluated_at)
        say(f"going on at step {population.steps:,} of {settings.total_steps:,}")
        return _train(population, evaluation_environments(agents, probes, settings), runs, settings, say, watch)


def make_population(
    agents: Sequence[Agent], probes: dict[str, Probe], settings: Settings, compiled: bool, say: Say
) -> Population:
    """The agents as they are at the very start, with room for what will come."""
    device, h = chosen_device(settings.device), settings.hyperparameters
    dtype = set_precision(settings, device)
    environments = make_environments(agents, probes, settings)
    try:
        population = Population(agents, environments, h, device, dtype, overlaps(settings, device))
        make_room(population, settings, say)
        if compiled:
            compile_if_possible(population, say, required=settings.compile == "on")
    except BaseException:
        environments.close()
        raise
    return population


def load(population: Population, agent: int, run: RunFolder, state: State | None, say: Say) -> None:
    """Brings one agent to where its run's last checkpoint was; one that has none starts from the beginning."""
    if state is None:
        return
    try:
        sentence = population.load_state_of(agent, *state)
    except KeyError as error:
        raise MRQError(f"the checkpoint in {run.path} is another version's: it has no {error}.") from None
    if sentence is not None:
        say(sentence)


def make_room(population: Population, settings: Settings, say: Say) -> None:
    """Says what the replay will take, or refuses, and then takes it."""
    h = settings.hyperparameters
    slots = slots_needed(settings.total_steps, h)
    say(reserve(len(population.agents), population.environments.spec, slots, population.device))
    population.make_room(settings.total_steps)
    if settings.total_steps <= h.random_steps:
        say(f"note: the first {h.random_steps:,} steps are random, so nothing will be learned")


def train_runs(
    population: Population,
    evaluation_environments: AnyEnvironments | None,
    runs: Sequence[RunFolder],
    settings: Settings,
    shown: bool = True,
    on_step: Callable[[], bool | None] | None = None,
    watch: Watch | None = None,
) -> Interruption:
    """The loop with its bar and its signals, and what must be put away afterwards."""
    period = settings.hyperparameters.target_period
    with (
        ProgressBar(_label(population), population.steps, settings.total_steps, period, shown, watch) as progress,
        Interruption() as interrupted,
    ):
        try:
            train(population, evaluation_environments, runs, settings, progress, interrupted, on_step)
        except EnvironmentFault as fault:
            # The environments may no longer be where the replay believes them, but they may be called again.
            for agent in range(len(population.agents)):
                population.begin_anew(agent)
            population.environments.failed.clear()
            if not runs:
                raise
            raise EnvironmentFault(
                f"{fault} What was learned is kept; mend the environment, then go on with: {resume_command(runs)}"
            ) from fault
        except CheckpointFault as fault:
            raise CheckpointFault(f"{fault} Mend that, then go on with: {resume_command(runs)}") from fault
        finally:
            for run in runs:
                run.close()
            if evaluation_environments is not None:
                evaluation_environments.close()
    return interrupted


def _label(population: Population) -> str:
    names = population.environments.names
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more"


def resume_command(runs: Sequence[RunFolder]) -> str:
    return f"{program()} resume {' '.join(shlex.quote(str(run.path)) for run in runs)}"


def program() -> str:
    """How this program can be called again, as shortly as it can be."""
    if shutil.which("mrq") is not None:
        return "mrq"
    return sys.argv[0] if Path(sys.argv[0]).name == "mrq" else "python -m mrq"


def _train(
    population: Population,
    evaluation_environments: AnyEnvironments | None,
    runs: list[RunFolder],
    settings: Settings,
    say: Say,
    watch: Watch | None,
) -> Outcome:
    interrupted = train_runs(population, evaluation_environments, runs, settings, watch=watch)
    if interrupted():
        say(f"interrupted at step {population.steps:,}")
    failed = [run for run, goes_on in zip(runs, population.active, strict=True) if not goes_on]
    return Outcome(runs, failed, interrupted())
