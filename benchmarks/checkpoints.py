"""Measures what a checkpoint of a full replay costs: writing, comparing with the one before, and the room on disk.

    python benchmarks/checkpoints.py FOLDER --slots 1_000_000 --steps 96_000

The replay is Atari's, filled with noise. Between two checkpoints, `--steps` of its slots are written, as minutes of
training do. FOLDER is made, and removed at the end.
"""

import argparse
import hashlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from mrq.interface import Image, ReplaySettings, Spec
from mrq.replay.buffer import Replay
from mrq.training.checkpoint import read_arrays, write_checkpoint

SPEC = Spec((Image(1, 84, 84),), history=4, choices=(18,))
LEARNER = {"parameters": np.ones(15_000_000, np.float32)}  # about as many as MR.Q's, its targets' and its optimisers'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--slots", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=96_000)
    options = parser.parse_args()
    options.folder.mkdir()
    try:
        measure(options.folder, options.slots, options.steps)
    finally:
        shutil.rmtree(options.folder)


def measure(folder: Path, slots: int, steps: int) -> None:
    replay = Replay([SPEC], ReplaySettings(slots, horizon=5), slots, torch.device("cpu"))
    replay.filled[0], replay.cursor[0] = slots, 0
    noise = np.random.default_rng(0)
    fill(replay, slots, noise)
    arrays, _ = replay.state_of(0)
    print(f"a replay of {slots:,} frames, {size(arrays) / 1e9:.2f} GB in {len(arrays)} files; {steps:,} new frames")

    def save() -> None:
        write_checkpoint(folder, LEARNER, replay.state_of(0)[0], {"steps": 1})

    timed("the first checkpoint", save, folder)
    fill(replay, steps, noise)
    timed("the second, beside it", save, folder)
    fill(replay, steps, noise)
    timed("the third, the first removed", save, folder)
    timed("the fourth, nothing new", save, folder)
    forget(folder)
    timed("the fifth, nothing new, read from the disk", save, folder)
    timed("for comparison: SHA-256 of the arrays in memory", lambda: digests(replay.state_of(0)[0]), folder)
    timed("reading and verifying a checkpoint", lambda: read_arrays(max(folder.iterdir())), folder)


def fill(replay: Replay, slots: int, noise: np.random.Generator) -> None:
    """Writes noise to the next slots, as if so many steps had been taken."""
    for _ in range(0, slots, 1_000):
        start = int(replay.cursor[0])
        replay.frames[0, start : start + 1_000] = torch.from_numpy(noise.integers(0, 256, (1_000, 1, 84, 84), np.uint8))
        replay.rewards[0, start : start + 1_000] = 1.0
        replay.cursor[0] = (start + 1_000) % replay.slots


def forget(folder: Path) -> None:
    """Makes the system forget what it holds of the files in memory."""
    for path in folder.glob("*/*"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def size(arrays: dict[str, np.ndarray]) -> int:
    return sum(array.nbytes for array in arrays.values())


def digests(arrays: dict[str, np.ndarray]) -> None:
    for array in arrays.values():
        hashlib.sha256(np.ascontiguousarray(array)).digest()


def timed(what: str, function: Callable[[], object], folder: Path) -> None:
    begin = time.perf_counter()
    function()
    seconds = time.perf_counter() - begin
    files = {
        path.stat().st_ino: path.stat().st_blocks * 512 for path in folder.glob("*/*")
    }  # a linked file counts once
    print(f"{what}: {seconds:.1f} s; on disk {sum(files.values()) / 1e9:.2f} GB", flush=True)


if __name__ == "__main__":
    main()
