"""Kills, stops and interrupts trainings and their workers at random moments; what is resumed must come out equal."""

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.soak.commands import Command, Ended, run
from tests.soak.configurations import CONFIGURATIONS, Configuration
from tests.soak.outcomes import Outcome, Result, Wrong
from tests.soak.references import reference, sound
from tests.soak.results import difference, differs_beyond_rounding, evaluations, result_of, stale_files, step_of

PATIENCE = 10.0  # seconds that a command may wait for a stopped worker, unless the worker is only being made
Disturbance = Callable[[Command, Random], tuple[Ended, tuple[int, ...]]]  # returns the statuses that are right, too


def _kill(command: Command, rng: Random) -> tuple[Ended, tuple[int, ...]]:
    command.send(signal.SIGKILL)
    return command.end(), (-signal.SIGKILL,)


def _asking(number: int, status: int, again: bool = False) -> Disturbance:
    """Asks a command to end, with a signal, or with two."""

    def ask(command: Command, rng: Random) -> tuple[Ended, tuple[int, ...]]:
        command.send(number)
        if again:
            command.has_ended(rng.uniform(0, 0.3))
            command.send(number)
        return command.end(), (status, -number, *((130,) if again else ()))

    return ask


def _kill_worker(command: Command, rng: Random) -> tuple[Ended, tuple[int, ...]]:
    _signal_worker(command, rng, signal.SIGKILL)
    return command.end(), (0, 1)


def _stop_worker(command: Command, rng: Random) -> tuple[Ended, tuple[int, ...]]:
    stopped = _signal_worker(command, rng, signal.SIGSTOP)
    if not command.has_ended(PATIENCE):
        _continue(stopped)
    return command.end(), (0, 1)


def _pause_worker(command: Command, rng: Random) -> tuple[Ended, tuple[int, ...]]:
    stopped = _signal_worker(command, rng, signal.SIGSTOP)
    command.has_ended(rng.uniform(0, 1))
    _continue(stopped)
    return command.end(), (0, 1)


def _stop_worker_and_kill(command: Command, rng: Random) -> tuple[Ended, tuple[int, ...]]:
    _signal_worker(command, rng, signal.SIGSTOP)
    command.has_ended(rng.uniform(0, 0.5))
    return _kill(command, rng)


ANYWHERE: dict[str, Disturbance] = {
    "SIGKILL": _kill,
    "SIGTERM": _asking(signal.SIGTERM, 143),
    "SIGINT": _asking(signal.SIGINT, 130),
    "SIGTERM twice": _asking(signal.SIGTERM, 143, again=True),
    "SIGINT twice": _asking(signal.SIGINT, 130, again=True),
}
WITH_WORKERS: dict[str, Disturbance] = {
    "worker killed": _kill_worker,
    "worker stopped": _stop_worker,
    "worker paused": _pause_worker,
    "worker stopped, SIGKILL": _stop_worker_and_kill,
}
SHARE_OF_SIGKILL = 0.5


def trial(rng: Random, place: Path, workspace: Path, configuration: str | None) -> list[Result]:
    """Disturbs a training several times, resumes it to its end, and compares what came of it."""
    c = CONFIGURATIONS[configuration or rng.choice(list(CONFIGURATIONS))]
    expected = reference(c, workspace)
    temporary = place / "temporary"
    temporary.mkdir()
    kinds, history, apart = list[str](), [c.name], False
    try:
        for _ in range(rng.randint(1, 4)):
            arguments = next_command(c, place)
            if arguments is None:
                break
            command = Command(arguments, place, {"TMPDIR": str(temporary)})
            if command.has_ended(after := rng.uniform(0, 1.1 * expected.seconds)):
                check_end(command.end(), (0,), place)
                continue
            kind = _choice(rng, c)
            ended, statuses = (ANYWHERE | WITH_WORKERS)[kind](command, rng)
            history.append(f"{kind} after {after:.3f} s: {ended}")
            kinds.append(kind)
            check_end(ended, (0, *statuses), place)
            _check_saved(c, ended, place, apart)
            apart = apart or are_apart(c, place) or "stopped early" in ended.err
        check_completed(c, place, workspace, apart)
        if left := list(temporary.iterdir()):
            raise Wrong(f"temporary files are left: {left}")
    except Wrong as wrong:
        history.append(f"WRONG: {wrong}")
        return [Result(f"kill: {kind}", Outcome.WRONG, "\n".join(history)) for kind in kinds[-1:] or ["none"]]
    return [Result(f"kill: {kind}{' (apart)' if apart else ''}", Outcome.EQUAL) for kind in kinds]


def next_command(c: Configuration, place: Path) -> list[str] | None:
    """Returns what a user would do next to complete a training; None if it is complete."""
    folders = dict(zip(c.seeds, c.folders(place), strict=True))
    missing = tuple(seed for seed, folder in folders.items() if not (folder / "run.json").exists())
    if len(missing) == len(folders):
        return c.train()
    last = str(c.steps)
    left = [
        str(folder.relative_to(place))
        for seed, folder in folders.items()
        if seed not in missing
        and not (step_of(folder) == c.steps and [row[2] for row in evaluations(folder)][-1:] == [last])
    ]
    if left:
        return ["resume", *left, *c.trusted]
    return c.train(seeds=missing) if missing else None


def check_end(ended: Ended, statuses: tuple[int, ...], place: Path) -> None:
    """Refuses an end that a disturbance does not explain."""
    if ended.fault or ended.status not in statuses or (ended.status == 1 and not ended.refused):
        raise Wrong(f"{ended.fault or 'unexpected status'}: {ended}")
    if "new episode" in ended.out:
        raise Wrong(f"the episode could not be restored: {ended}")


def are_apart(c: Configuration, place: Path) -> bool:
    """Says whether a training's agents will not train together any more: some have no folder yet, or other steps.

    Each agent then computes the same as before, except for rounding.
    """
    return len({((folder / "run.json").exists(), step_of(folder)) for folder in c.folders(place)}) > 1


def check_completed(c: Configuration, place: Path, workspace: Path, apart: bool = False) -> None:
    """Completes a training without further disturbance; refuses any difference from the undisturbed one."""
    for _ in range(4):
        apart = apart or are_apart(c, place)
        arguments = next_command(c, place)
        if arguments is None:
            break
        sound(run(arguments, place))
    for folder, whole in zip(c.folders(place), reference(c, workspace).wholes, strict=True):
        what = difference(result_of(folder), result_of(whole))
        if what is not None and not (apart and not differs_beyond_rounding(folder, whole)):
            raise Wrong(f"the result of {folder.name} differs: {what}")
    if stale := stale_files(place / "runs"):
        raise Wrong(f"stale files: {stale}")


def _check_saved(c: Configuration, ended: Ended, place: Path, apart: bool) -> None:
    """Refuses an interrupted training that was not saved where it stopped; agents that are apart train in turn."""
    for step in re.findall(r"interrupted at step ([\d,]+)", ended.out):
        saved = [step_of(folder) for folder in c.folders(place)]
        if not (any if apart else all)(each == int(step.replace(",", "")) for each in saved):
            raise Wrong(f"the checkpoints are of steps {saved}: {ended}")


def _choice(rng: Random, c: Configuration) -> str:
    if rng.random() < SHARE_OF_SIGKILL:
        return "SIGKILL"
    return rng.choice(list(ANYWHERE | WITH_WORKERS if c.workers else ANYWHERE))


def _signal_worker(command: Command, rng: Random, number: int) -> list[int]:
    """Sends a signal to one of a command's workers, when there is one; returns it."""
    deadline = time.monotonic() + PATIENCE
    while not (workers := command.workers()) and not command.has_ended(0.01) and time.monotonic() < deadline:
        pass
    chosen = [rng.choice(workers)] if workers else []
    for pid in chosen:
        os.kill(pid, number)
    return chosen


def _continue(processes: list[int]) -> None:
    for pid in processes:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            continue
