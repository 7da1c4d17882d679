"""mrq bench: from what was asked for to a matrix, and from its fleets to what came of them."""

from collections.abc import Callable, Sequence
from pathlib import Path

from mrq.baselines.kinds import kind_of
from mrq.benchmark.cluster import Cluster
from mrq.benchmark.cost import MACHINES, overview
from mrq.benchmark.local import run_fleets
from mrq.benchmark.matrix import Job, State, fleets, jobs, state_of
from mrq.benchmark.storage import at_hand, is_address, named_as_at
from mrq.benchmark.variants import DEFAULT, VARIANTS
from mrq.benchmark.view import View
from mrq.environments.suggestions import did_you_mean
from mrq.environments.tasks import paper_tasks
from mrq.errors import MRQError
from mrq.replay.memory import available_memory
from mrq.training.devices import chosen_device
from mrq.training.settings import Settings

MRQ = "mrq"  # among the algorithms that were asked for
SEEDS, SEEDS_OF_VARIANTS = 10, 5  # as the paper has them
MOST_SEEDS = 1_000
ALL = "all"  # of the variants
INTERRUPTED = 130  # what a shell calls that, so that nothing takes it for finished
MEMORY_SHARE = 0.8  # of what a GPU has free


def bench(
    suite: str,
    tasks: Sequence[str],
    algorithms: Sequence[str],
    seeds: int | None,
    variants: Sequence[str],
    runs: str,
    settings: Settings,
    cluster: Cluster | None,  # None: this machine
    dry_run: bool,
    say: Callable[[str], None],
    show: Callable[[Sequence[Sequence[str]]], None],
) -> None:
    algorithms = [algorithm.lower() for algorithm in algorithms]
    if not algorithms:
        raise MRQError("--algorithm is empty; give mrq, or baselines such as ppo.")
    if variants and MRQ not in algorithms:
        raise MRQError("--variants are MR.Q's; add mrq to --algorithm.")
    if seeds is None:
        seeds = SEEDS_OF_VARIANTS if variants else SEEDS
    if not 1 <= seeds <= MOST_SEEDS:
        raise MRQError(f"--seeds is {seeds}; it must be from 1 to {MOST_SEEDS:,}.")
    for variant in variants:
        if variant not in (*VARIANTS, ALL):
            raise MRQError(f"there is no variant {variant!r}; there are {', '.join(VARIANTS)}, or {ALL}.")
    own = [DEFAULT, *(VARIANTS if ALL in variants else variants)]
    names = [name for a in algorithms for name in (own if a == MRQ else [kind_of(a).name])]
    if cluster is not None:
        _refuse_without_ray()
    elif is_address(runs):
        raise MRQError(f"{runs} is an address, to which --engine ray alone sends runs; give --runs a folder.")
    elif Path(runs).is_file():
        raise MRQError(f"{runs} is a file; give --runs a folder.")
    with at_hand(runs) as place:
        root = place.absolute()  # workers are elsewhere, and environments may go where they like
        matrix = jobs(chosen_tasks(suite, tasks), list(dict.fromkeys(names)), range(seeds), settings, root)
        states = {job: state_of(job) for job in matrix}
        unusable = [(job, why) for job, (state, _, why) in states.items() if state is State.UNUSABLE]
        failed = {job: named_as_at(runs, root, why) for job, why in unusable}
        if dry_run:
            device = "cuda" if settings.device.startswith("cuda") else chosen_device(settings.device).type
            show(overview({job: (state, step) for job, (state, step, _) in states.items()}, device))
            say(f"The hours are those of {MACHINES[device]}, as far as they are known.")
            for job, why in failed.items():
                say(f"{job.name} is unusable: {why}")
            return
        due = [job for job, (state, _, _) in states.items() if state.due]
        say(f"runs: {len(matrix)}, of which {len(due)} to do, {len(matrix) - len(due) - len(failed)} finished already")
        view = View({job: state for job, (state, _, _) in states.items()})
        if cluster is None:
            broken, interrupted = _run_here(due, view, settings)
        else:
            broken, interrupted = _run_on(cluster, due, view, settings, root, runs, say)
    failed |= broken
    for job, why in failed.items():
        say(f"{job.name}: {why}")
    if interrupted:
        say("interrupted; the same command goes on where it stopped")
        raise SystemExit(INTERRUPTED)
    if failed:
        raise MRQError(f"{len(failed)} of {len(matrix)} runs did not finish, for the reasons above.")
    say(f"all of them are finished; see: mrq report {runs}")


def _refuse_without_ray() -> None:
    try:
        import ray  # noqa: F401
    except ImportError:
        raise MRQError("--engine ray needs Ray; run: pip install 'mrq-rl[ray]'") from None


def _run_here(due: Sequence[Job], view: View, settings: Settings) -> tuple[dict[Job, str], bool]:
    device = chosen_device(settings.device)
    memory = int(MEMORY_SHARE * available_memory(device)) if device.type == "cuda" else None
    with view:
        return run_fleets(fleets(due, memory), view)


def _run_on(
    cluster: Cluster,
    due: Sequence[Job],
    view: View,
    settings: Settings,
    root: Path,
    runs: str,
    say: Callable[[str], None],
) -> tuple[dict[Job, str], bool]:
    from mrq.benchmark import ray_engine

    if not due:
        return {}, False
    address = runs if is_address(runs) else None
    with ray_engine.connected(cluster, settings.device, say) as share:
        free = ray_engine.memory_for(share)
        memory = None if free is None else int(MEMORY_SHARE * free)
        grouped = fleets(due, memory, ray_engine.largest_fleet(share, len(due)))
        with view:
            return ray_engine.run_fleets(grouped, view, share, root, address)


def chosen_tasks(suite: str, names: Sequence[str]) -> list[str]:
    """The paper's tasks of a suite, or those of them that were named, with or without the suite."""
    known = [task.name for task in paper_tasks() if suite in ("all", task.suite)]
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
