"""Fills disks while a training runs; with room again, it must come out equal."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from tests.soak.commands import Command
from tests.soak.configurations import CONFIGURATIONS
from tests.soak.kills import are_apart, check_completed, check_end, next_command
from tests.soak.outcomes import Outcome, Result, Wrong
from tests.soak.references import WHOLE, reference

ROOM = 200  # MB of the disk that is filled


def trial(rng: Random, place: Path, workspace: Path, configuration: str | None) -> list[Result]:
    """Lets a training run out of room once or twice, resumes it with room, and compares what came of it."""
    c = CONFIGURATIONS[configuration or rng.choice(list(CONFIGURATIONS))]
    expected = reference(c, workspace)
    size = sum(path.stat().st_size for path in (expected.place / WHOLE).rglob("*") if path.is_file())
    kind = rng.choice(["disk full", "disk filled", "file too large"]) if os.getuid() == 0 else "file too large"
    history, apart = [c.name], False
    try:
        with _disk(place) if kind != "file too large" else _folder(place) as disk:
            for _ in range(rng.randint(1, 2)):
                arguments = next_command(c, disk)
                if arguments is None:
                    break
                room = round(10 ** rng.uniform(2, 0.3 + len(str(size))))
                filler = disk / "filler"
                if kind == "disk full":
                    _fill(filler, room)
                command = Command(arguments, disk, largest_file=room if kind == "file too large" else None)
                if kind == "disk filled":
                    command.has_ended(rng.uniform(0, expected.seconds))
                    _fill(filler, rng.choice([0, 4_096, 100_000]))
                ended = command.end()
                history.append(f"{kind}, {room} bytes: {ended}")
                filler.unlink(missing_ok=True)
                check_end(ended, (0, 1), disk)
                apart = apart or are_apart(c, disk)
            check_completed(c, disk, workspace, apart)
    except Wrong as wrong:
        return [Result(f"disk: {kind}", Outcome.WRONG, "\n".join([*history, f"WRONG: {wrong}"]))]
    return [Result(f"disk: {kind}", Outcome.EQUAL)]


@contextmanager
def _disk(place: Path) -> Iterator[Path]:
    """Makes a small disk."""
    disk = place / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}m", "soak", disk], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


@contextmanager
def _folder(place: Path) -> Iterator[Path]:
    yield place


def _fill(filler: Path, room: int) -> None:
    """Fills a disk until only `room` bytes are left."""
    block = bytes(100_000)
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(block) == len(block):
            pass
        while file.write(bytes(512)):
            pass
    os.truncate(filler, max(0, filler.stat().st_size - room))
