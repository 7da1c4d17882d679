"""Runs as a report sees them: read from their folders, or from another program's table."""

import csv
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mrq.benchmark.variants import variant_of
from mrq.environments.tasks import full_name
from mrq.errors import MRQError
from mrq.interface import Array
from mrq.training.run_folder import MRQ, RunFolder

EXTERNAL_COLUMNS = ("task", "seed", "step", "return")
PACKAGES = ("python", "torch", "numpy", "gymnasium", "mujoco", "dm_control", "ale-py")  # that results may depend on
Setup = tuple[tuple[str, str], ...]  # what a run was made with, and on: names and values


@dataclass(frozen=True)
class Record:
    """One agent's learning curve, and where it is from. An evaluation whose return is no number counts as not made."""

    algorithm: str  # MR.Q, the name of a variant, or what an external table was called
    task: str  # with its suite
    seed: int
    steps: Array  # of its evaluations, ascending
    returns: Array
    seconds: Array  # of training before each; none where they are unknown
    source: Path
    setup: Setup = ()
    parameters: int = 0  # that are learned; 0 where that is unknown

    @property
    def machine(self) -> str:
        """Its device and CPU; empty where they are unknown."""
        found = dict(self.setup)
        return f"{found['device']} ({found['CPU']})" if {"device", "CPU"} <= found.keys() else ""

    def at(self, step: int) -> float | None:
        """The return at that very step."""
        found = np.flatnonzero(self.steps == step)
        return float(self.returns[found[0]]) if len(found) else None


def collect(paths: Iterable[Path], say: Callable[[str], None]) -> list[Record]:
    """All runs under `paths`; what cannot be read is said and left out."""
    records: dict[Path, Record] = {}
    for path in paths:
        if not path.exists():
            raise MRQError(f"there is no folder {path}; give one that `mrq train` or `mrq bench` wrote to.")
        for document in sorted(path.rglob("run.json")):
            try:
                record = _from_folder(document.parent)
            except (MRQError, ValueError) as error:
                say(f"left out: {error}")
                continue
            if len(record.steps):
                records[document.parent.resolve()] = record
    return list(records.values())


def external(path: Path) -> Iterator[Record]:
    """Another program's results: a CSV with the columns task, seed, step and return, named as the column will be."""
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in EXTERNAL_COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise MRQError(f"{path} has no column {', '.join(missing)}; it needs {', '.join(EXTERNAL_COLUMNS)}.")
            curves: dict[tuple[str, int], dict[int, float]] = {}
            for row in reader:
                if math.isfinite(value := float(row["return"])):
                    curves.setdefault((full_name(row["task"]), int(row["seed"])), {})[int(row["step"])] = value
    except (OSError, ValueError, TypeError) as error:
        raise MRQError(f"{path} cannot be read: {error}.") from None
    for (task, seed), curve in curves.items():
        steps = np.array(sorted(curve))
        yield Record(path.stem, task, seed, steps, np.array([curve[step] for step in steps]), np.zeros(0), path)


def _from_folder(folder: Path) -> Record:
    run = RunFolder(folder)
    rows = [row for row in run.evaluations() if math.isfinite(float(row["return_mean"]))]
    return Record(
        variant_of(run.settings.hyperparameters) if run.algorithm == MRQ else run.algorithm,
        full_name(run.task),
        run.seed,
        np.array([int(row["step"]) for row in rows]),
        np.array([float(row["return_mean"]) for row in rows]),
        np.array([float(row["seconds"]) for row in rows]),
        folder,
        _setup(run),
        run.parameters,
    )


def _setup(run: RunFolder) -> Setup:
    """As far as run.json has it."""
    machine, versions = run.machine, {name.lower(): version for name, version in run.versions.items()}
    number, gpus = run.settings.device.partition(":")[2], machine.get("gpus") or []
    index = int(number) if number.isdigit() else 0
    with_gpu = run.settings.device != "cpu" and index < len(gpus)
    found = {
        "mrq": run.made_by,
        **{name: versions.get(name) for name in PACKAGES},
        "device": gpus[index] if with_gpu else "CPU",
        "CPU": " ".join(f"{machine.get('cpus') or ''} {machine.get('cpu') or 'cores'}".split()),
        "platform": machine.get("platform"),
        "precision": run.settings.precision,
        "compiled": "yes" if run.compiled else "no",
    }
    return tuple((name, str(value)) for name, value in found.items() if value)
