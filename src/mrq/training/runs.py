"""Starting and resuming runs: from settings and folders to populations in the training loop."""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from mrq.bounds import MOST_AGENTS, MOST_STEPS, Between
from mrq.environments.checked import CheckedEnvironment
from mrq.environments.environments import EnvironmentFault, Environments
from mrq.environments.probing import Probe, probe
from mrq.environments.tasks import full_name
from mrq.errors import MRQError
from mrq.files import is_address
from mrq.interface import Identity, Say, kind_of
from mrq.replay.allocation import reserve, slots_needed
from mrq.training.building import build_population
from mrq.training.checkpoint import AgentState, CheckpointFault
from mrq.training.compiling import compile_if_possible, worth_compiling
from mrq.training.devices import chosen_device, overlaps, set_precision
from mrq.training.environments import evaluation_environments, make_environments, try_tasks, with_vectors
from mrq.training.interruption import Interruption
from mrq.training.listeners.best_agent import BestAgent
from mrq.training.listeners.evaluations_file import EvaluationsFile
from mrq.training.listeners.learning_curve import LearningCurve
from mrq.training.listeners.listener import Listener, Listeners
from mrq.training.listeners.stopping import StopAtReturn, StopWithoutImprovement
from mrq.training.listeners.trackers import refuse_unusable_trackers, trackers
from mrq.training.loop import train
from mrq.training.population import Population
from mrq.training.run_creation import create_run_folder, occupied, refuse_existing, run_path
from mrq.training.run_folder import DOCUMENT, FILMS, RunFolder
from mrq.training.settings import LOCAL_TRACKERS, Settings, TrackerName, checked_seeds, checked_task

# Agents that train together have these in common; the middle two are MR.Q's, in checkpoints from before version 0.2.
SHARED_COUNTERS = ("steps", "encoder_updates", "updates", "evaluated_at", "learner")
States = dict[RunFolder, AgentState | None]  # None: a run without a checkpoint


class Outcome(NamedTuple):
    """What came of a training."""

    runs: list[RunFolder]
    failed: list[RunFolder]  # those of them that stopped early
    interrupted: int | None  # the signal that stopped it
    all_begun: bool = True  # otherwise it was stopped before the last agents had run folders


def identities_of(tasks: Sequence[str], seeds: tuple[int, ...]) -> list[Identity]:
    """Returns an identity per task and seed."""
    if not tasks:
        raise MRQError("give a task, such as Pendulum-v1, or several tasks of one kind.")
    if len({full_name(task) for task in tasks}) < len(tasks):
        raise MRQError(f"the tasks are {list(tasks)}; give different ones, and several --seeds for more of one.")
    identities = [Identity(checked_task(task), seed) for task in tasks for seed in checked_seeds(seeds)]
    if len(identities) > MOST_AGENTS:
        raise MRQError(f"there are {len(identities):,} agents; give at most {MOST_AGENTS:,} in one call.")
    return identities


def runs_folder(place: str) -> Path:
    """Returns the folder that `--runs` names; refuses an address and a file."""
    if is_address(place):
        raise MRQError(f"{place} is an address, which needs `mrq bench --engine ray`; give --runs a folder.")
    folder = Path(place)
    if os.path.lexists(folder) and not folder.is_dir():
        raise MRQError(f"{place} is not a folder; give --runs one.")
    return folder


def start(identities: Sequence[Identity], settings: Settings, root: Path, listener: Listener) -> Outcome:
    """Trains new agents, each with a folder of its own under `root`; together, if their algorithm can."""
    tasks = list(dict.fromkeys(identity.task for identity in identities))
    settings = settings.completed(tasks)
    refuse_unusable_trackers(settings.track)
    for identity in identities:
        refuse_existing(run_path(root, *identity), settings.algorithm.title)
    device = chosen_device(settings.device)
    probes = try_tasks(tasks, settings)
    settings = with_vectors(settings, probes)
    settings.algorithm.refuse([probes[task].spec for task in tasks], tasks)
    for task in tasks:
        for remark in (*probes[task].remarks, *settings.algorithm.remarks(probes[task].spec)):
            listener.message(f"{task}: {remark}")
    if device.type == "cpu":
        for advice in settings.algorithm.advice_without_gpu(settings.hyperparameters):
            listener.message(advice)
    compiled = worth_compiling(settings, device)
    outcome = Outcome([], [], None)
    groups = _groups(identities, settings)
    for place, together in enumerate(groups):
        names = ", ".join(identity.name for identity in together)
        if outcome.interrupted:
            listener.message(f"{names}: not started; give the command again for it")
            outcome = outcome._replace(all_begun=False)
            continue
        if len(groups) > 1:
            listener.message(f"{names} ({place + 1} of {len(groups)})")
        try:
            population = make_population(together, probes, settings, compiled, listener.message)
            with closing(population.environments):
                runs = _create_folders(population, probes, settings, root)
                evaluated = evaluation_environments(together, probes, settings)
                trained = _train(population, evaluated, runs, settings, listener)
        except MRQError as error:
            if len(groups) == 1:
                raise
            listener.message(f"{names}: {error}")
            paths = [run_path(root, *identity) for identity in together]
            begun = [RunFolder(path) for path in paths if occupied(path)]
            trained = Outcome(begun, begun, None)
        outcome = _joined(outcome, trained)
    return outcome


def resume(
    folders: Sequence[Path],
    steps: int | None,
    listener: Listener,
    machine: Settings | None = None,  # whose device, processes and times replace the runs'
    trust: bool = False,  # code that the folders bring may be run
    environment: str | None = None,  # to train in, instead of the one that the folders name
    track: Sequence[TrackerName] | None = None,  # trackers, instead of those that the folders name
    changes: Mapping[str, Any] = MappingProxyType({}),  # further settings that the runs have from now on
) -> Outcome:
    """Resumes runs where they stopped; those that stand at the same place train together."""
    if not folders:
        raise MRQError("give the run folders to resume, such as runs/Pendulum-v1/seed-0.")
    if len({os.path.realpath(folder) for folder in folders}) < len(folders):
        raise MRQError("a run folder is given twice; give each once.")
    if steps is not None:
        Between(1, MOST_STEPS).check(steps, "--steps")
    runs = [RunFolder(folder.absolute(), environment) for folder in folders]
    with ExitStack() as stack:
        for run in runs:
            stack.callback(run.close)
        for run in runs:
            run.refuse_unknown_algorithm()
            run.refuse_untrusted(trust)
            run.settings = replace(run.settings, track=run.trackers(track, trust))
            refuse_unusable_trackers(run.settings.track)
        return _resume(runs, steps, listener, machine, changes)


def _resume(
    runs: list[RunFolder],
    steps: int | None,
    listener: Listener,
    machine: Settings | None,
    changes: Mapping[str, Any],
) -> Outcome:
    for run in runs:
        if steps is not None and steps < run.step:
            raise MRQError(f"the run in {run.path} is at step {run.step:,} already; --steps must be more.")
    finished = [run for run in runs if steps in (None, run.step) and not run.unfinished]
    for run in finished:
        sentence = f"the run in {run.path} has finished its {run.step:,} steps"
        if len(finished) == len(runs):
            raise MRQError(f"{sentence}; to train longer, add for example --steps {2 * run.step}.")
        listener.message(f"{sentence}; the others continue.")
    runs = [run for run in runs if run not in finished]
    for run in runs:
        changed = dict(changes) if steps is None else {**changes, "steps": steps}
        run.settings = replace(run.settings, **changed).completed([run.task])
        if machine is not None:
            run.settings = run.settings.on_machine_of(machine)
    states: States = {}
    for run in runs:
        try:
            run.lock()
            run.refuse_lost_checkpoints()
            states[run] = state = run.saved_state(listener.message)
            if state is not None:
                run.check_evaluations(state.counters)
        except MRQError as error:
            if len(runs) == 1:
                raise
            listener.message(f"{run.identity.name}: {error}")
    timeout = max((run.settings.environment_timeout for run in states), default=0.0)
    probes = probe({run: run.recipe() for run in states}, timeout)
    for run in states:
        run.check_spaces(probes[run].spaces)
        if run.replaced:
            listener.message(
                f"{run.identity.name}: training in {run.environment} instead of the run's own environment, which "
                f"{DOCUMENT} still names: {run.replaced}"
            )
    for run in states:
        run.change(
            steps=run.settings.total_steps, track=run.settings.track, **changes
        )  # of all, because an interruption may keep some from starting
    outcome = Outcome(runs, [run for run in runs if run not in states], None)
    for together in _at_the_same_place(states, probes):
        if len(together) < len(runs):
            listener.message(", ".join(run.identity.name for run in together))
        try:
            tried = {run.task: probes[run] for run in together}
            resumed = _resume_together(together, states, tried, listener)
        except MRQError as error:
            if len(runs) == len(together):
                raise
            for run in together:
                listener.message(f"{run.identity.name}: {error}")
            resumed = Outcome([], together, None)
        outcome = outcome._replace(failed=outcome.failed + resumed.failed, interrupted=resumed.interrupted)
        if outcome.interrupted:
            break
    return outcome


def _at_the_same_place(states: States, probes: dict[RunFolder, Probe]) -> Iterator[list[RunFolder]]:
    """Groups the runs that can train together: equal settings, kinds of spaces, and counters."""

    def place(run: RunFolder) -> str:
        kind = kind_of(probes[run].spec)
        state = states[run]
        counters = state and [state.counters.get(name) for name in SHARED_COUNTERS]
        alone = None if run.settings.algorithm.in_populations else run.path
        return repr((run.title, run.settings, run.compiled, counters, kind, probes[run].copies, alone))

    for _, group in groupby(sorted(states, key=place), key=place):
        yield list(group)


def _resume_together(runs: list[RunFolder], states: States, probes: dict[str, Probe], listener: Listener) -> Outcome:
    settings, identities = runs[0].settings, [run.identity for run in runs]
    population = make_population(identities, probes, settings, runs[0].compiled, listener.message)
    with closing(population.environments):
        for agent, run in enumerate(runs):
            state = states.pop(run)  # not kept, because the files that it maps will be removed
            load(population, agent, run, state, listener.message)
        for run in runs:
            run.rewind(population.evaluated_at)
        listener.message(f"resuming at step {population.steps:,} of {settings.total_steps:,}")
        return _train(population, evaluation_environments(identities, probes, settings), runs, settings, listener)


def make_population(
    identities: Sequence[Identity], probes: dict[str, Probe], settings: Settings, compiled: bool, say: Say
) -> Population:
    """Makes the agents as they are at the very start, their environments, and room for their training."""
    device = chosen_device(settings.device)
    dtype = set_precision(settings, device)
    environments = make_environments(identities, probes, settings, settings.envs)
    try:
        h, overlap = settings.hyperparameters, overlaps(settings, device)
        population = build_population(identities, environments, h, device, dtype, overlap)
        make_room(population, settings, say)
        if compiled:
            compile_if_possible(population.works, device, say, required=settings.compile == "on")
    except BaseException:
        environments.close()
        raise
    return population


def load(population: Population, agent: int, run: RunFolder, state: AgentState | None, say: Say) -> None:
    """Restores one agent from its run's last checkpoint; one that has none starts from the beginning."""
    if state is None:
        return
    with run.restoring():
        sentence = population.load_state_of(agent, state)
    if sentence is not None:
        say(sentence)


def make_room(population: Population, settings: Settings, say: Say) -> None:
    """Says how much memory the replay will take, or refuses, and then takes it."""
    h = settings.hyperparameters
    slots = slots_needed(settings.total_steps, h.replay, population.copies)
    where = reserve(len(population.identities), population.environments.spec, slots, population.device)
    if population.learner.works:  # a library's algorithm has a replay of its own
        say(where)
    population.expect(settings.total_steps)
    if settings.total_steps <= h.random_steps:
        say(f"note: the first {h.random_steps:,} steps are random, so nothing will be learned")


def train_runs(
    population: Population,
    evaluated: Environments | None,
    runs: Sequence[RunFolder],
    settings: Settings,
    listener: Listener,
    callbacks: Sequence[Listener] = (),
) -> Interruption:
    """Trains with the run folders' listeners and with signals, and closes everything afterwards."""
    listeners = Listeners([*_recording(settings, runs, listener.message), *_stopping(settings), listener], callbacks)
    with Interruption() as interrupted:
        try:
            train(population, evaluated, runs, settings, listeners, interrupted)
        except EnvironmentFault as fault:
            # The environments may no longer be where the replay believes them, but they may be called again.
            population.begin_anew(slice(None))
            if not runs:
                raise
            raise EnvironmentFault(
                f"{fault} What was learned is kept; fix the environment, then resume with: {resume_command(runs)}"
            ) from fault
        except CheckpointFault as fault:
            raise CheckpointFault(f"{fault} Fix that, then resume with: {resume_command(runs)}") from fault
        finally:
            for run in runs:
                run.close()
            if evaluated is not None:
                evaluated.close()
    return interrupted


def _recording(settings: Settings, runs: Sequence[RunFolder], say: Say) -> list[Listener]:
    """Returns what records a training in its run folders, and the trackers."""
    if not runs:
        return []
    films = [_films(settings.film_every, runs, say)] if settings.film_every else []
    tracking = trackers(settings.track, runs, say)  # they send films
    return [EvaluationsFile(runs), *films, *tracking, LearningCurve(runs), BestAgent(runs)]


def _stopping(settings: Settings) -> list[Listener]:
    """Returns what stops a training early."""
    at_return = [] if settings.stop_at_return is None else [StopAtReturn(settings.stop_at_return)]
    return [*at_return, *([StopWithoutImprovement(settings.patience)] if settings.patience else [])]


def _films(every: int, runs: Sequence[RunFolder], say: Say) -> Listener:
    """Returns what films each agent in its run folder."""
    from mrq.training.film import rendered  # it brings codecs
    from mrq.training.listeners.films import Films

    def make(agent: int, masked: bool) -> CheckedEnvironment:
        recipe = runs[agent].recipe()._replace(in_evaluations=True)
        return CheckedEnvironment(recipe.make_one(**rendered()), recipe.options, masked)

    return Films(every, [run.path / FILMS for run in runs], make, say)


def resume_command(runs: Sequence[RunFolder]) -> str:
    """Returns the command that resumes these runs, in the environment and with the trackers that the user named."""
    environment = "".join({f" --env {shlex.quote(run.environment)}" for run in runs if run.environment is not None})
    trust = " --trust" if any(run.needs_trust for run in runs) else ""
    names = dict.fromkeys(name for run in runs for name in run.settings.track)
    track = "" if set(names) <= set(LOCAL_TRACKERS) else f" --track {' '.join(names)}"
    return f"{program()} resume {' '.join(shlex.quote(str(run.path)) for run in runs)}{environment}{track}{trust}"


def program() -> str:
    """Returns the shortest way to call this program again."""
    if shutil.which("mrq") is not None:
        return "mrq"
    return sys.argv[0] if Path(sys.argv[0]).name == "mrq" else "python -m mrq"


def _groups(identities: Sequence[Identity], settings: Settings) -> list[list[Identity]]:
    return [list(identities)] if settings.algorithm.in_populations else [[identity] for identity in identities]


def _create_folders(
    population: Population, probes: dict[str, Probe], settings: Settings, root: Path
) -> list[RunFolder]:
    """Creates all run folders, or none."""
    runs: list[RunFolder] = []
    try:
        for agent, identity in enumerate(population.identities):
            spaces, parameters = probes[identity.task].spaces, population.learner.parameters_of(agent)
            path = run_path(root, *identity)
            runs.append(create_run_folder(path, identity, settings, population.compiled, spaces, parameters))
    except MRQError:
        for run in runs:
            run.close()
            shutil.rmtree(run.path, ignore_errors=True)
        raise
    return runs


def _train(
    population: Population,
    evaluated: Environments | None,
    runs: list[RunFolder],
    settings: Settings,
    listener: Listener,
) -> Outcome:
    interrupted = train_runs(population, evaluated, runs, settings, listener)
    if interrupted():
        listener.message(f"interrupted at step {population.steps:,}")
    failed = [run for run, active in zip(runs, population.active, strict=True) if not active]
    return Outcome(runs, failed, interrupted.number)


def _joined(one: Outcome, other: Outcome) -> Outcome:
    return Outcome(one.runs + other.runs, one.failed + other.failed, other.interrupted)
