"""Runs as a report sees them: read from their folders, or from another program's table."""

import csv
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


@dataclass(frozen=True)
class Record:
    """One agent's learning curve, and where it is from."""

    algorithm: str  # MR.Q, the name of a variant, or what an external table was called
    task: str  # with its suite
    seed: int
    steps: Array  # of its evaluations, ascending
    returns: Array
    seconds: Array  # of training before each; none where they are unknown
    source: Path

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
                curve = curves.setdefault((full_name(row["task"]), int(row["seed"])), {})
                curve[int(row["step"])] = float(row["return"])
    except (OSError, ValueError, TypeError) as error:
        raise MRQError(f"{path} cannot be read: {error}.") from None
    for (task, seed), curve in curves.items():
        steps = np.array(sorted(curve))
        yield Record(path.stem, task, seed, steps, np.array([curve[step] for step in steps]), np.zeros(0), path)


def _from_folder(folder: Path) -> Record:
    run = RunFolder(folder)
    rows = run.evaluations()
    return Record(
        variant_of(run.settings.hyperparameters) if run.algorithm == MRQ else run.algorithm,
        full_name(run.task),
        run.seed,
        np.array([int(row["step"]) for row in rows]),
        np.array([float(row["return_mean"]) for row in rows]),
        np.array([float(row["seconds"]) for row in rows]),
        folder,
    )
