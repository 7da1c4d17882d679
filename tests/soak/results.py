"""What a training leaves, read from its folder without the code that wrote it, and compared to the last bit."""

import csv
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from tests.soak.outcomes import Wrong

Found = dict[str, Any]
LARGEST = 10**8  # bytes
VOLATILE = ("seconds", "evaluations")  # counters that depend on the clock


def step_of(run: Path) -> int:
    """Returns the step of a run's latest checkpoint; 0 without any."""
    try:
        return int(json.loads(content_of(latest(run) / "checkpoint.json"))["counters"]["steps"])
    except (OSError, ValueError):
        return 0


def latest(run: Path) -> Path:
    """Returns a run's latest checkpoint."""
    named = (run / "checkpoints").glob("*-step-*")
    names = r"[0-9]{1,12}-step-[0-9]{1,12}"
    checkpoints = [path for path in named if re.fullmatch(names, path.name) and path.is_dir()]
    return max(checkpoints, key=lambda path: int(path.name.partition("-")[0]), default=run / "checkpoints" / "none")


def evaluations(run: Path) -> list[list[str]]:
    """Returns the rows of a run's evaluations without their seconds."""
    try:
        with (run / "evaluations.csv").open(newline="") as file:
            rows = list(csv.reader(file))[1:]
    except FileNotFoundError:
        return []
    seconds = [float(row[-1]) for row in rows]
    if seconds != sorted(seconds):
        raise Wrong(f"the seconds in {run} run backwards: {seconds}")
    return [row[:-1] for row in rows]


def result_of(run: Path) -> Found:
    """Returns all numbers that a run computed, with digests of its files; refuses files with other digests."""
    document = json.loads((latest(run) / "checkpoint.json").read_text())
    files = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in latest(run).iterdir()
        if path.name != "checkpoint.json"
    }
    if files != document["files"]:
        raise Wrong(f"the checkpoint of {run} has other files than it says")
    counters = {name: value for name, value in document["counters"].items() if name not in VOLATILE}
    return {**files, "counters": counters, "evaluations": evaluations(run)}


def difference(found: Found, expected: Found) -> str | None:
    """Describes what differs between two results."""
    names = [name for name in sorted(found.keys() | expected.keys()) if found.get(name) != expected.get(name)]
    texts = [f"{name}: {str(found.get(name))[:1_500]} instead of {str(expected.get(name))[:1_500]}" for name in names]
    return "; ".join(texts) or None


def content_of(path: Path) -> bytes:
    """Returns the content of a regular file; of one that is far too large, its size."""
    if path.is_symlink() or not path.is_file():
        return b""
    size = path.stat().st_size
    return path.read_bytes() if size < LARGEST else f"{size} bytes".encode()


def _settings(path: Path) -> str | None:
    """Returns what a run.json holds, except for its steps, which a command may have been given, and so its digest."""
    try:
        document = json.loads(content_of(path))
        document["settings"].pop("steps")
        document.pop("digest", None)
        return repr(document)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def differs_beyond_rounding(run: Path, expected: Path) -> bool:
    """Compares the results of an agent that trained partly alone with those of one that trained with others."""
    counters, own = result_of(run)["counters"], result_of(expected)["counters"]
    floats = ("episode_return", "next_action")
    if {n: v for n, v in counters.items() if n not in floats} != {n: v for n, v in own.items() if n not in floats}:
        return True
    rows, theirs = evaluations(run), evaluations(expected)
    if [row[:3] for row in rows] != [row[:3] for row in theirs]:
        return True
    numbers = [(np.array(row[3:], float), np.array(other[3:], float)) for row, other in zip(rows, theirs, strict=True)]
    for path in latest(expected).iterdir():
        if path.suffix == ".npy":
            numbers.append((np.load(latest(run) / path.name), np.load(path)))
        elif path.suffix == ".safetensors":
            tensors = load_file(latest(run) / path.name)
            numbers += [(tensors[name], tensor) for name, tensor in load_file(path).items()]
    return not all(one.shape == other.shape and np.allclose(one, other, 1e-3, 1e-4) for one, other in numbers)


def stale_files(place: Path) -> list[str]:
    """Returns files that are left from an interrupted write.

    The picture is drawn last of all: a kill at that moment leaves nothing to resume, and the next training replaces it.
    """
    names = (path.relative_to(place).as_posix() for path in place.rglob("*") if "learning_curve" not in path.name)
    return [name for name in names if name.endswith("unfinished") or any(p[0] == "." for p in name.split("/"))]


def snapshot(place: Path) -> dict[str, str]:
    """Returns what lies in a folder: kinds, targets of links, digests of contents; of settings, all but the steps."""
    found = {}
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if path.is_symlink():
            found[name] = f"link to {path.readlink()}"
        elif path.name == "run.json" and (settings := _settings(path)) is not None:
            found[name] = settings
        elif path.is_file():
            found[name] = hashlib.sha256(content_of(path)).hexdigest()
        else:
            found[name] = "folder" if path.is_dir() else "other"
    return found
