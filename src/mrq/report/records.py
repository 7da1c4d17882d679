"""Runs as a report sees them: read from their folders, or from another program's table."""

import csv
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mrq.environments.tasks import full_name
from mrq.errors import DAMAGE, MRQError, one_line
from mrq.files import read_text
from mrq.interface import Array
from mrq.printable import condensed
from mrq.report.columns import MAIN, PAPER, VARIANTS
from mrq.training.run_folder import CHECKPOINTS, TABLES, RunFolder

EXTERNAL_COLUMNS = ("task", "seed", "step", "return")
MOST_STEPS = 10**15
LARGEST_RETURN = 1e100
LARGEST_TABLE = 100 * 10**6  # bytes of another program's results
# The packages that results may depend on.
PACKAGES = ("python", "torch", "numpy", "gymnasium", "mujoco", "dm_control", "ale-py", "stable_baselines3")
Provenance = tuple[tuple[str, str], ...]  # hardware, versions and settings of a run: names and values


@dataclass(frozen=True)
class Record:
    """One agent's learning curve and its source. Evaluations without a valid return are omitted."""

    algorithm: str  # its column: an algorithm, a variant, or the name of an external table
    task: str  # with its suite
    seed: int
    steps: Array  # of its evaluations, ascending
    returns: Array
    seconds: Array  # of training before each evaluation; empty if unknown
    source: Path
    provenance: Provenance = ()
    parameters: int = 0  # learned parameters; 0 if unknown

    @property
    def machine(self) -> str:
        """Its device and CPU; empty if unknown."""
        found = dict(self.provenance)
        return f"{found['device']} ({found['CPU']})" if {"device", "CPU"} <= found.keys() else ""

    def at(self, step: int) -> float | None:
        """Returns the return at exactly this step, or None."""
        found = np.flatnonzero(self.steps == step)
        return float(self.returns[found[0]]) if len(found) else None


def is_valid(value: float) -> bool:
    """Says whether this is a return; NaN and the placeholders that some programs write are not."""
    return abs(value) < LARGEST_RETURN


def collect(paths: Iterable[Path], say: Callable[[str], None], tables: Iterable[Path] = ()) -> list[Record]:
    """Reads all runs under `paths`, and other programs' results; reports what it cannot read and skips it."""
    records: dict[tuple[str, str, int], Record] = {}
    seen: set[Path] = set()
    for path in paths:
        if not path.is_dir():
            raise MRQError(f"there is no folder {path}; give one that `mrq train` or `mrq bench` wrote to.")
        for folder in sorted(_run_folders(path)):
            if folder.resolve() in seen:
                continue
            seen.add(folder.resolve())
            try:
                _add(records, _from_folder(folder), say)
            except MRQError as error:
                say(f"left out: {error}")
            except DAMAGE as error:
                say(f"left out: {folder}: {one_line(error)}")
    for table in tables:
        taken = {algorithm for algorithm, _, _ in records} | {MAIN, *VARIANTS}
        if table.stem in taken or table.stem.endswith(PAPER):
            raise MRQError(f"{table}: another column of the report is called {table.stem!r}; rename the file.")
        for record in external(table):
            _add(records, record, say)
    return list(records.values())


def _run_folders(root: Path) -> Iterator[Path]:
    """Finds folders with a run's tables, however deep they lie, except in a run's checkpoints, which have copies."""
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            inside = list(os.scandir(folder))
        except OSError:  # it is gone, may not be read, or its path is too long
            continue
        is_run = any(entry.name in TABLES for entry in inside)
        if is_run:
            yield folder
        for entry in inside:
            if entry.is_dir(follow_symlinks=False) and not (is_run and entry.name == CHECKPOINTS):
                folders.append(folder / entry.name)


def _add(records: dict[tuple[str, str, int], Record], record: Record, say: Callable[[str], None]) -> None:
    """Adds a record. Of two with the same algorithm, task and seed, the one that was trained longer is kept."""
    key = (record.algorithm, record.task, record.seed)
    if key in records:
        longer, other = records[key], record
        if record.steps[-1] > longer.steps[-1]:
            longer, other = other, longer
        say(f"left out: {other.source}: the same algorithm, task and seed as {longer.source}")
        record = longer
    records[key] = record


def external(path: Path) -> Iterator[Record]:
    """Reads another program's results: a CSV with the columns task, seed, step and return. Its name is the column's."""
    try:
        content = read_text(path, LARGEST_TABLE, encoding="utf-8-sig", follow=True)
    except (OSError, UnicodeError) as error:
        raise MRQError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    curves: dict[tuple[str, int], dict[int, float]] = {}
    rows = csv.reader(io.StringIO(content, newline=""))
    try:
        head = [name.strip().lower() for name in next(rows, [])]
        missing = [name for name in EXTERNAL_COLUMNS if name not in head]
        if missing:
            raise MRQError(f"{path} has no column {', '.join(missing)}; it needs {', '.join(EXTERNAL_COLUMNS)}.")
        if repeated := [name for name in EXTERNAL_COLUMNS if head.count(name) > 1]:
            raise MRQError(f"{path} has the column {', '.join(repeated)} twice; remove or rename one of them.")
        for row in filter(None, rows):
            if len(row) < len(head):
                raise ValueError(f"it has {len(row)} cells, but there are {len(head)} columns")
            task, seed, step, value = (row[head.index(name)].strip() for name in EXTERNAL_COLUMNS)
            if not task:
                raise ValueError("the task is missing")
            curve, at = curves.setdefault((full_name(task), int(seed)), {}), int(float(step))
            if at != float(step) or not 0 <= at < MOST_STEPS or at in curve:
                problem = "repeated" if at in curve else "not a number of steps"
                raise ValueError(f"step {step} of {task}, seed {seed}, is {problem}")
            if is_valid(number := float(value)):
                curve[at] = number
    except DAMAGE as error:
        raise MRQError(f"{path} cannot be read, line {rows.line_num}: {one_line(error)}.") from None
    if not any(curves.values()):
        raise MRQError(f"{path} has no returns.")
    for (name, number_of_seed), curve in curves.items():
        if curve:
            steps = np.array(sorted(curve))
            yield Record(
                path.stem, name, number_of_seed, steps, np.array([curve[at] for at in steps]), np.zeros(0), path
            )


def _from_folder(folder: Path) -> Record:
    run = RunFolder(folder)
    rows = [row for row in run.checked_evaluations() if is_valid(float(row["return_mean"]))]
    if not rows:
        raise MRQError(f"{folder} has no evaluations yet.")
    steps = [int(row["step"]) for row in rows]
    if steps[-1] >= MOST_STEPS:  # they ascend
        raise MRQError(f"{folder}: its evaluations are of more steps than any training has.")
    if condensed(run.label).endswith(PAPER):
        raise MRQError(f"{folder}: its algorithm is called {run.label!r}, like a column of the paper's results.")
    return Record(
        run.label,
        full_name(run.task),
        run.seed,
        np.array(steps),
        np.array([float(row["return_mean"]) for row in rows]),
        np.array([float(row["seconds"]) for row in rows]),
        folder,
        _provenance(run),
        run.parameters,
    )


def _provenance(run: RunFolder) -> Provenance:
    """Returns what run.json says; older versions of mrq wrote less."""
    machine, versions = run.machine, {name.lower(): version for name, version in run.versions.items()}
    number, gpus = run.settings.device.partition(":")[2], machine.get("gpus") or []
    index = int(number) if re.fullmatch("[0-9]{1,4}", number) else 0
    with_gpu = run.settings.device != "cpu" and index < len(gpus)
    found = {
        "mrq": run.made_by,
        **{name: versions.get(name) for name in PACKAGES},
        "device": gpus[index] if with_gpu else "Apple GPU" if run.settings.device == "mps" else "CPU",
        "CPU": " ".join(f"{machine.get('cpus') or ''} {machine.get('cpu') or 'cores'}".split()),
        "platform": machine.get("platform"),
        "precision": run.settings.precision,
        "compiled": "yes" if run.compiled else "no",
    }
    return tuple((name, str(value)) for name, value in found.items() if value)
