"""mrq bench: from what was asked for to a matrix, and from its fleets to what came of them."""

from collections.abc import Callable, Sequence
from pathlib import Path

from mrq.baselines.kinds import kind_of
from mrq.benchmark.cost import MACHINES, overview
from mrq.benchmark.local import run_fleets
from mrq.benchmark.matrix import State, fleets, jobs, state_of
from mrq.benchmark.variants import DEFAULT, VARIANTS
from mrq.benchmark.view import View
from mrq.environments.tasks import paper_tasks
from mrq.errors import MRQError
from mrq.replay.memory import available_memory
from mrq.training.devices import chosen_device
from mrq.training.settings import Settings

MRQ = "mrq"  # among the algorithms that were asked for
SEEDS, SEEDS_OF_VARIANTS = 10, 5  # as the paper has them
INTERRUPTED = 130  # what a shell calls that, so that nothing takes it for finished
MEMORY_SHARE = 0.8  # of what a GPU has free


def bench(
    suite: str,
    tasks: Sequence[str],
    algorithms: Sequence[str],
    seeds: int | None,
    variants: Sequence[str],
    root: Path,
    settings: Settings,
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
    if seeds < 1:
        raise MRQError(f"--seeds is {seeds}; it must be 1 or more.")
    own = [DEFAULT, *(VARIANTS if "all" in variants else variants)]
    names = [name for a in algorithms for name in (own if a == MRQ else [kind_of(a).name])]
    matrix = jobs(chosen_tasks(suite, tasks), list(dict.fromkeys(names)), range(seeds), settings, root)
    device = chosen_device(settings.device)
    states = {job: state_of(job) for job in matrix}
    failed = {job: why for job, (state, _, why) in states.items() if state is State.UNUSABLE}
    if dry_run:
        show(overview({job: (state, step) for job, (state, step, _) in states.items()}, device.type))
        say(f"The hours are those of {MACHINES[device.type]}, as far as they are known.")
        for job, why in failed.items():
            say(f"{job.name} is unusable: {why}")
        return
    due = [job for job, (state, _, _) in states.items() if state.due]
    memory = int(MEMORY_SHARE * available_memory(device)) if device.type == "cuda" else None
    say(f"runs: {len(matrix)}, of which {len(due)} to do, {len(matrix) - len(due) - len(failed)} finished already")
    with View({job: state for job, (state, _, _) in states.items()}) as view:
        broken, interrupted = run_fleets(fleets(due, memory), view)
    failed |= broken
    for job, why in failed.items():
        say(f"{job.name}: {why}")
    if interrupted:
        say("interrupted; the same command goes on where it stopped")
        raise SystemExit(INTERRUPTED)
    if failed:
        raise MRQError(f"{len(failed)} of {len(matrix)} runs did not finish, for the reasons above.")
    say(f"all of them are finished; see: mrq report {root}")


def chosen_tasks(suite: str, names: Sequence[str]) -> list[str]:
    """The paper's tasks of a suite, or those of them that were named, with or without the suite."""
    known = [task.name for task in paper_tasks() if suite in ("all", task.suite)]
    if not names:
        return known
    chosen = []
    for name in names:
        matching = [task for task in known if name in (task, task.partition("/")[2])]
        if not matching:
            raise MRQError(f"the paper has no task {name!r} in {suite}; `mrq tasks` lists those it has.")
        chosen += matching
    return list(dict.fromkeys(chosen))
