"""Undisturbed trainings: what others are compared with, and folders to damage. Each is made when it is first needed."""

import fcntl
import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.soak.commands import Command, Ended, run
from tests.soak.configurations import PERIOD, Configuration
from tests.soak.outcomes import Wrong
from tests.soak.results import difference, latest, result_of, step_of

WHOLE, PAUSED, KILLED, OTHER = "whole", "paused", "killed", "other"
ATTEMPTS = 20  # at killing a training in time
FIRST, SECOND = PERIOD, 2 * PERIOD  # where the paused run stopped


@dataclass(frozen=True)
class Reference:
    """The folders of one configuration.

    whole: trained without a pause. paused: finished at step FIRST, and then at step SECOND. killed: on its way,
    with two checkpoints. other: of another seed.
    """

    configuration: Configuration
    place: Path
    seconds: float  # that the whole training took

    @property
    def wholes(self) -> list[Path]:
        """The run folders of the whole training."""
        return self.configuration.folders(self.place / WHOLE)


def reference(configuration: Configuration, workspace: Path) -> Reference:
    """Returns a configuration's undisturbed trainings, which all lanes share."""
    place = workspace / "references" / configuration.name
    with _locked(place):
        if not (place / "seconds").exists():
            for left in place.glob("*/"):  # by an attempt that failed
                shutil.rmtree(left)
            for name in (WHOLE, PAUSED, KILLED, OTHER):
                (place / name).mkdir()
            seconds = _make(configuration, place)
            (place / "seconds").write_text(str(seconds))
    return Reference(configuration, place, float((place / "seconds").read_text()))


def copied(folder: Path, to: Path) -> Path:
    """Copies a folder; files that are links of each other in it are so in the copy, too."""
    subprocess.run(["cp", "-a", folder, to], check=True)
    return to


def reported(expected: Reference, base: str) -> str:
    """Returns what a report says of an undamaged run."""
    return str(json.loads((expected.place / f"{base}.json").read_text())["report"])


def played(expected: Reference, base: str) -> list[str]:
    """Returns how the checkpoints of an undamaged run play, the latest first."""
    return list(json.loads((expected.place / f"{base}.json").read_text())["returns"])


def _make(c: Configuration, place: Path) -> float:
    whole = sound(run(c.train(), place / WHOLE))
    sound(run(c.train(FIRST), place / PAUSED))
    _resume(c, place / PAUSED, SECOND)
    copied(place / PAUSED, place / "resumed")
    _resume(c, place / "resumed", c.steps)
    for one, other in zip(c.folders(place / WHOLE), c.folders(place / "resumed"), strict=True):
        if (what := difference(result_of(other), result_of(one))) is not None:
            raise Wrong(f"resumed runs differ from the whole one: {what}")
    sound(run(c.train(seeds=(7,)), place / OTHER))
    for _ in range(ATTEMPTS):
        if _killed_on_its_way(c, place / KILLED):
            break
        shutil.rmtree(place / KILLED)
        (place / KILLED).mkdir()
    else:
        raise Wrong(f"{c.name} was never killed between its second checkpoint and its end")
    if len(c.seeds) == 1:
        for base in (PAUSED, KILLED):
            _read(c, place, base)
    return whole.seconds


def _read(c: Configuration, place: Path, base: str) -> None:
    """Notes what a report says of a run, and how its two checkpoints play."""
    copy = copied(place / base, place / "read")
    (folder,) = c.folders(copy)
    report = sound(run(["report", "runs"], copy)).out
    returns = []
    while latest(folder).exists():
        ended = sound(run(["evaluate", str(folder), "--episodes", "1", *c.trusted], copy))
        returns += [line for line in ended.out.splitlines() if line.startswith("return ")]
        shutil.rmtree(latest(folder))
    shutil.rmtree(copy)
    (place / f"{base}.json").write_text(json.dumps({"report": report, "returns": returns}))


def _resume(c: Configuration, place: Path, steps: int) -> None:
    folders = [str(folder.relative_to(place)) for folder in c.folders(place)]
    sound(run(["resume", *folders, "--steps", str(steps), *c.trusted], place))


def _killed_on_its_way(c: Configuration, place: Path) -> bool:
    # More checkpoints than other trainings write, so that there are two before its end on a slow disk, too.
    command = Command(replace(c, checkpoint_minutes=c.checkpoint_minutes / 4).train(), place)
    folders = c.folders(place)
    while not command.has_ended(0.005) and any(len(_checkpoints(folder)) < 2 for folder in folders):
        pass
    command.send(signal.SIGKILL)
    command.end()
    return all(step_of(folder) < c.steps and len(_checkpoints(folder)) == 2 for folder in folders)


def _checkpoints(folder: Path) -> list[Path]:
    return list(folder.glob("checkpoints/*-step-*"))


def sound(ended: Ended) -> Ended:
    """Refuses an end that an undisturbed command does not have."""
    if ended.fault or ended.status != 0 or re.search("new episode", ended.out):
        raise Wrong(f"an undisturbed command failed ({ended.fault}): {ended}")
    return ended


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
