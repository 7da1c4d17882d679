"""One long training on small networks: its memory, descriptors, threads and disk must stay flat."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.soak.commands import children
from tests.soak.configurations import NETWORKS

EVERY = 5.0  # seconds between two samples
CAPACITY = 2_000  # observations of the replay, which is full early
WARM_UP = 0.2  # of the time, which does not count: the replay fills, libraries are loaded, caches grow
# What may be more per hour, after the warm-up: measurements of an allocator are not constant, a leak has no end.
TOLERANCES = {"memory (MB)": 20.0, "descriptors": 4.0, "threads": 4.0, "disk (MB)": 1.0}
OPTIONS = (
    *("--seeds", "0", "1", "--workers", "2", "--device", "cpu", "--steps", "100_000_000"),
    *("--replay-capacity", str(CAPACITY), "--random-steps", "500", "--batch-size", "32", "--hidden-width", "32"),
    *("--target-period", "50", *NETWORKS, "--compile", "off"),
    *("--evaluate-every", "1_000", "--evaluation-episodes", "2", "--checkpoint-minutes", "0.25"),
)


@dataclass(frozen=True)
class Sample:
    """What all processes of the training use together at one moment."""

    minutes: float
    step: int
    values: dict[str, float]  # by name; those in TOLERANCES must stay flat

    def __str__(self) -> str:
        return f"{self.minutes:8.1f} {self.step:>10,}" + "".join(f"{value:>14,.1f}" for value in self.values.values())


def endure(minutes: float) -> int:
    """Trains for so many minutes; returns the exit status."""
    with tempfile.TemporaryDirectory(prefix="mrq-endurance-") as folder:
        command = [sys.executable, "-m", "mrq", "train", "tests.soak.environments:swing", *OPTIONS]
        with open(f"{folder}/output", "w") as output:
            training = subprocess.Popen(
                command, cwd=folder, stdout=output, stderr=output, env=os.environ | {"PYTHONPATH": os.getcwd()}
            )
        try:
            samples = _watch(training, Path(folder), minutes)
        finally:
            training.terminate()
            training.wait()
        if training.returncode not in (0, 143):
            print(Path(folder, "output").read_text()[-3_000:])
            return 1
    return _judge(samples)


def _watch(training: subprocess.Popen[bytes], folder: Path, minutes: float) -> list[Sample]:
    samples, began, told = list[Sample](), time.monotonic(), 0.0
    while training.poll() is None and time.monotonic() < began + 60 * minutes:
        time.sleep(EVERY)
        sample = _sample((time.monotonic() - began) / 60, training.pid, folder)
        if not samples:
            print(f"{'minutes':>8} {'step':>10}" + "".join(f"{name:>14}" for name in sample.values))
        samples.append(sample)
        if sample.minutes >= told:
            print(sample, flush=True)
            told += 1
    return samples


def _sample(minutes: float, pid: int, folder: Path) -> Sample:
    processes = [pid]
    for process in processes:
        processes += children(process)
    memory = descriptors = threads = 0
    for process in processes:
        try:
            memory += _private_memory(process)
            descriptors += len(os.listdir(f"/proc/{process}/fd"))
            threads += len(os.listdir(f"/proc/{process}/task"))
        except (FileNotFoundError, ProcessLookupError):
            continue
    flat = {"memory (MB)": memory / 1e6, "descriptors": descriptors, "threads": threads}
    sizes = {"disk (MB)": 0, "growing (MB)": 0}
    step = 0
    for path in folder.rglob("*"):
        try:
            grows = path.name in ("evaluations.csv", "output") or "tfevents" in path.name
            sizes["growing (MB)" if grows else "disk (MB)"] += path.stat().st_size if path.is_file() else 0
            if path.parent.name == "checkpoints" and path.name != "unfinished":
                step = max(step, int(path.name.rpartition("-")[2]))
        except FileNotFoundError:  # it has been replaced
            continue
    return Sample(minutes, step, flat | {name: size / 1e6 for name, size in sizes.items()})


def _private_memory(process: int) -> int:
    """Returns a process's memory, with its share of what it shares with others."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text()
    return 1_000 * next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))


def _judge(samples: Sequence[Sample]) -> int:
    """Prints how much more is used per hour, and whether that is too much."""
    from_minute = WARM_UP * samples[-1].minutes
    counted = [sample for sample in samples if sample.minutes >= from_minute]
    hours = np.array([sample.minutes / 60 for sample in counted])
    print(f"\nper hour, from minute {from_minute:.1f} on:")
    failed = counted[0].step < CAPACITY
    if failed:
        print(f"the replay of {CAPACITY:,} observations was not full by then; give it more --minutes")
    for name in samples[-1].values:
        slope = float(np.polyfit(hours, [sample.values[name] for sample in counted], 1)[0])
        tolerance = TOLERANCES.get(name)
        failed = failed or (tolerance is not None and slope > tolerance)
        verdict = "grows by nature" if tolerance is None else f"at most {tolerance:+.1f}"
        print(f"{name:14} {slope:+8.2f}  ({verdict})")
    print("grew" if failed else "flat")
    return int(failed)
