"""mrq bench: makes the run matrix that was asked for, trains its fleets, and says how they ended."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mrq.algorithms.algorithm import Algorithm
from mrq.algorithms.registry import ALGORITHMS, DEFAULT, algorithm_named
from mrq.benchmark.cluster import Cluster
from mrq.benchmark.cost import MACHINES, overview
from mrq.benchmark.local import run_fleets
from mrq.benchmark.matrix import Job, RunState, fleets, jobs, state_of
from mrq.benchmark.storage import at_hand, named_as_at
from mrq.benchmark.view import View
from mrq.bounds import Between
from mrq.environments.suggestions import did_you_mean
from mrq.environments.tasks import paper_tasks
from mrq.errors import MRQError
from mrq.files import is_address
from mrq.interface import Say
from mrq.memory import available_memory
from mrq.terminal import interrupted_by
from mrq.training.devices import chosen_device
from mrq.training.listeners.trackers import refuse_unusable_trackers
from mrq.training.runs import runs_folder
from mrq.training.settings import Settings

SEEDS, STUDY_SEEDS = 10, 5  # as many as the paper has, of its algorithms and of its design study
MOST_SEEDS = 1_000
ALL = "all"  # suites, or variants
MEMORY_SHARE = 0.8  # of a GPU's free memory


@dataclass(frozen=True)
class Request:
    """What `mrq bench` was asked for."""

    suite: str
    settings: Settings
    tasks: Sequence[str] = ()  # some of the suite's tasks; none means all of them
    algorithms: Sequence[str] = (DEFAULT,)
    variants: Sequence[str] = ()
    seeds: int | None = None  # how many; None means as many as in the paper
    runs: str = "runs"  # a folder or an address
    cluster: Cluster | None = None  # None means this machine
    dry_run: bool = False  # only says what there is to do
    trust: bool = False  # unfinished runs of algorithms that unpickle their checkpoints are resumed too


def bench(request: Request, say: Say, show: Callable[[Sequence[Sequence[str]]], None]) -> None:
    """Trains the runs that are not finished; `say` prints a line, and `show` prints a table."""
    algorithms = chosen_algorithms(request.algorithms)
    variants = chosen_variants(request.variants, algorithms)
    seeds = chosen_seeds(request.seeds, variants)
    tasks = chosen_tasks(request.suite, request.tasks)
    runs, settings = request.runs, request.settings
    _refuse_unusable_place(runs, request.cluster)
    if request.cluster is None:  # the machines of a cluster may have other packages
        refuse_unusable_trackers(settings.track)
    with at_hand(runs) as place:
        root = place.absolute()  # workers are in other folders, and environments may change the working directory
        matrix = jobs(tasks, algorithms, variants, range(seeds), settings, root)
        found = {job: state_of(job) for job in (replace(job, trust=request.trust) for job in matrix)}
        failed = {
            job: named_as_at(runs, root, problem)
            for job, (state, _, problem) in found.items()
            if state is RunState.UNUSABLE
        }
        if request.dry_run:
            on_gpu = settings.device.startswith("cuda") or chosen_device(settings.device).type == "cuda"
            device = "cuda" if on_gpu else "cpu"
            show(overview({job: (state, step) for job, (state, step, _) in found.items()}, device))
            say(f"The hours are estimates for {MACHINES[device]}.")
            for job, reason in failed.items():
                say(f"{job.name} is unusable: {reason}")
            return
        due = [job for job, (state, _, _) in found.items() if state.due]
        say(f"runs: {len(found)}, to do: {len(due)}, already finished: {len(found) - len(due) - len(failed)}")
        view = View({job: state for job, (state, _, _) in found.items()})
        if request.cluster is None:
            reasons, interrupted = _train_here(due, view, settings)
        else:
            reasons, interrupted = _train_on(request.cluster, due, view, settings, root, runs, say)
    failed |= reasons
    for job, reason in failed.items():
        say(f"{job.name}: {reason}")
    if interrupted:
        say("interrupted; run the same command again to continue")
        raise SystemExit(interrupted_by(interrupted))
    if failed:
        raise MRQError(f"{len(failed)} of {len(found)} runs did not finish, for the reasons above.")
    say(f"all runs are finished; to see their results: mrq report {runs}")


def chosen_algorithms(names: Sequence[str]) -> list[Algorithm]:
    """Returns the algorithms of these names, each once."""
    if not names:
        raise MRQError(f"--algorithm is empty; give one or more of {', '.join(ALGORITHMS)}.")
    return [algorithm_named(name) for name in dict.fromkeys(name.lower() for name in names)]


def chosen_variants(names: Sequence[str], algorithms: Sequence[Algorithm]) -> list[str]:
    """Returns the variants of these names, or all that the algorithms have."""
    known = list(dict.fromkeys(variant for algorithm in algorithms for variant in algorithm.variants))
    if names and not known:
        others = [name for name in ALGORITHMS if algorithm_named(name).variants]
        raise MRQError(f"--variants needs an algorithm that has variants; add {' or '.join(others)} to --algorithm.")
    for name in names:
        if name not in (*known, ALL):
            raise MRQError(f"there is no variant {name!r}; there are {', '.join(known)}, or {ALL}.")
    return known if ALL in names else list(dict.fromkeys(names))


def chosen_seeds(number: int | None, variants: Sequence[str]) -> int:
    """Returns how many seeds train; by default as many as in the paper."""
    if number is None:
        return STUDY_SEEDS if variants else SEEDS
    Between(1, MOST_SEEDS).check(number, "--seeds")
    return number


def chosen_tasks(suite: str, names: Sequence[str]) -> list[str]:
    """Returns the paper's tasks of a suite, or those of these names; the suite may be omitted from a name."""
    known = [task.name for task in paper_tasks() if suite in (ALL, task.suite)]
    if not names:
        return known
    chosen = []
    for name in names:
        matching = [task for task in known if name in (task, task.partition("/")[2])]
        if not matching:
            advice = did_you_mean(name, known) or "`mrq tasks` lists those it has."
            raise MRQError(f"the paper has no task {name!r} in {suite}; {advice}")
        chosen += matching
    return list(dict.fromkeys(chosen))


def _refuse_unusable_place(runs: str, cluster: Cluster | None) -> None:
    """Refuses an engine that is not installed, and a place that the engine cannot use."""
    if cluster is not None:
        try:
            import ray  # noqa: F401
        except ImportError:
            raise MRQError("--engine ray needs Ray; run: pip install 'mrq-rl[ray]'") from None
    if cluster is None or not is_address(runs):
        runs_folder(runs)


def _train_here(due: Sequence[Job], view: View, settings: Settings) -> tuple[dict[Job, str], int | None]:
    device = chosen_device(settings.device)
    memory = int(MEMORY_SHARE * available_memory(device)) if device.type == "cuda" else None
    with view:
        return run_fleets(fleets(due, memory), view)


def _train_on(
    cluster: Cluster, due: Sequence[Job], view: View, settings: Settings, root: Path, runs: str, say: Say
) -> tuple[dict[Job, str], int | None]:
    from mrq.benchmark import ray_engine

    if not due:
        return {}, None
    address = runs if is_address(runs) else None
    with ray_engine.connected(cluster, settings.device, say) as share:
        free = ray_engine.memory_for(share)
        memory = None if free is None else int(MEMORY_SHARE * free)
        grouped = fleets(due, memory, ray_engine.largest_fleet(share, len(due)))
        with view:
            return ray_engine.run_fleets(grouped, view, share, root, address)
