"""The folder of one run: one algorithm, one task, one seed, and all that they produced.

run.json             the settings, and the versions of everything
evaluations.csv      one row per evaluation
learning_curve.png   the same, as a picture
tensorboard/         losses, values, speed, training returns
checkpoints/         the latest complete state
lock                 empty; held by the process that trains the run
"""

import csv
import fcntl
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mrq import version
from mrq.algorithms.algorithm import Algorithm
from mrq.algorithms.registry import algorithm_titled, default_algorithm
from mrq.errors import DAMAGE, MRQError, one_line
from mrq.interface import Array, Identity
from mrq.training import checkpoint as checkpoints
from mrq.training.settings import Settings

DOCUMENT, EVALUATIONS = TABLES = ("run.json", "evaluations.csv")  # the settings, and the results
CHECKPOINTS, TENSORBOARD, CURVE = "checkpoints", "tensorboard", "learning_curve.png"
ASIDE = ".unfinished"  # how the names of files end that are being written
COLUMNS = ("task", "seed", "step", "return_mean", "return_std", "length_mean", "episodes", "seconds")


class RunFolder:
    """An existing run folder: its files, and its lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            document = json.loads((path / DOCUMENT).read_text())
            self.title = str(document.get("algorithm", default_algorithm().title))  # of the algorithm
            known = self._algorithm()
            algorithm = known or default_algorithm()
            settings = dict(document["settings"])
            written = settings.pop("hyperparameters", {})
            # This version may not have the algorithm. Until version 0.2, baselines recorded MR.Q's hyperparameters,
            # which they do not have.
            own = written if known and fields(known.hyperparameters) else {}
            hyperparameters = algorithm.hyperparameters(**own)
            self.task, self.seed = str(document["task"]), int(document["seed"])
            self.settings = Settings(**settings, hyperparameters=hyperparameters).completed([self.task])
            self.compiled, self.spaces = bool(document["compiled"]), dict(document["spaces"])
            self.parameters = int(document.get("parameters", 0))
            self.made_by = str(document.get("mrq", ""))  # the version of mrq
            self.machine, self.versions = dict(document.get("machine", {})), dict(document.get("versions", {}))
        except FileNotFoundError:
            raise MRQError(f"there is no run in {path}: it has no run.json.") from None
        except NotADirectoryError:
            raise MRQError(f"{path} is not a folder; give a run folder, such as runs/Pendulum-v1/seed-0.") from None
        except DAMAGE as error:
            raise MRQError(f"{path / DOCUMENT} cannot be read ({error}); restore it from a copy.") from None
        self._lock: int | None = None

    def _algorithm(self) -> Algorithm | None:
        """Returns the run's algorithm, or None if this version of mrq does not have it."""
        try:
            return algorithm_titled(self.title)
        except MRQError:
            return None

    def refuse_unknown_algorithm(self) -> None:
        """Refuses to train or play a run of an algorithm that this version of mrq does not have."""
        if self._algorithm() is None:
            raise MRQError(
                f"the run in {self.path} was trained with {self.title}, an algorithm that this version of mrq does not "
                "have."
            )

    @property
    def label(self) -> str:
        """What reports call it: the algorithm's title, a variant, or the title with what was changed."""
        algorithm = self._algorithm()
        return self.title if algorithm is None else algorithm.label(self.settings.hyperparameters)

    @property
    def identity(self) -> Identity:
        return Identity(self.task, self.seed)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What a checkpoint must have been written with to belong to this run."""
        return fingerprint(self.identity, self.settings)

    @property
    def checkpoints(self) -> Path:
        return self.path / CHECKPOINTS

    @property
    def checkpoint(self) -> Path:
        """The latest checkpoint."""
        latest = checkpoints.latest_checkpoint(self.checkpoints)
        if latest is None:
            raise MRQError(f"the run in {self.path} has no checkpoint yet.")
        return latest

    @property
    def step(self) -> int:
        """The step of its latest checkpoint."""
        latest = checkpoints.latest_checkpoint(self.checkpoints)
        return 0 if latest is None else checkpoints.step_of(latest)

    @property
    def unfinished(self) -> bool:
        """Whether some of its steps are left, or the evaluation after them."""
        rows = self.evaluations()
        owes = self.settings.evaluation_period > 0 and (not rows or int(rows[-1]["step"]) < self.step)
        return self.step < self.settings.total_steps or owes

    def saved_state(self) -> tuple[dict[str, Array], dict[str, Array], dict[str, Any]] | None:
        """Reads its latest checkpoint: tensors, arrays and counters; returns None where it has none."""
        latest = checkpoints.latest_checkpoint(self.checkpoints)
        if latest is None:
            return None
        counters = self.counters_of(latest)
        return checkpoints.read_tensors(latest), checkpoints.read_arrays(latest), counters

    def counters_of(self, checkpoint: Path) -> dict[str, Any]:
        """Reads a checkpoint's counters; refuses a checkpoint that belongs to another run.json."""
        self.refuse_earlier_format(checkpoint)
        counters = checkpoints.read_counters(checkpoint)
        written = counters["run"]
        # Earlier versions had neither other algorithms nor every hyperparameter.
        defaults = asdict(self.settings.algorithm.hyperparameters())
        written = {"algorithm": default_algorithm().title} | written
        if written | {"hyperparameters": defaults | written["hyperparameters"]} != self.fingerprint:
            raise MRQError(
                f"the algorithm, task, seed or hyperparameters in {self.path / DOCUMENT} are not those of its "
                "checkpoint; restore the file from a copy."
            )
        return counters

    def refuse_earlier_format(self, checkpoint: Path) -> None:
        """Refuses a checkpoint of another library's algorithm from before version 0.2."""
        if (checkpoint / "seconds.json").exists():
            raise MRQError(
                f"the run in {self.path} was trained by a version of mrq before 0.2, which saved {self.title} in "
                "another way; reports still read it, but it cannot be resumed or evaluated."
            )

    def check_spaces(self, spaces: dict[str, str]) -> None:
        for kind, space in spaces.items():
            trained_with = self.spaces.get(kind)
            if space != trained_with:
                raise MRQError(
                    f"the run in {self.path} was trained with the {kind} space {trained_with} and the environment "
                    f"now has {space}; use the environment it was trained with."
                )

    def extend(self, steps: int) -> None:
        """Sets another total number of steps."""
        self.settings = replace(self.settings, steps=steps)
        document = json.loads((self.path / DOCUMENT).read_text())
        document["settings"]["steps"] = steps
        with written_aside(self.path / DOCUMENT) as aside:
            aside.write_text(json.dumps(document, indent=1) + "\n")

    def lock(self) -> None:
        """Keeps a second process from training the same run, until this one ends or closes the run.

        It locks a file rather than the folder, so that other machines see the lock on a disk that they share by NFS.
        """
        try:
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MRQError(f"another process is training the run in {self.path}; wait for it, or stop it.") from None
        except OSError as error:
            raise MRQError(f"the run in {self.path} cannot be locked: {error.strerror}.") from None

    def rewind(self, step: int) -> None:
        """Deletes the evaluations after `step`, which a resumed run will do again."""
        kept = [row for row in self.evaluations() if int(row["step"]) <= step]
        with written_aside(self.path / EVALUATIONS) as aside, aside.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(kept)

    def evaluations(self) -> list[dict[str, str]]:
        """Reads the rows of evaluations.csv."""
        path = self.path / EVALUATIONS
        try:
            with path.open(newline="") as file:
                # A kill may have cut the last row short.
                rows = [row for row in csv.DictReader(file) if row.get(COLUMNS[-1])]
            for row in rows:
                int(row["step"]), [float(row[name]) for name in COLUMNS[3:]]
        except FileNotFoundError:
            return []
        except DAMAGE as error:
            raise MRQError(f"{path} cannot be read ({one_line(error)}); restore it from a copy.") from None
        return rows

    def close(self) -> None:
        """Releases the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def run_path(root: Path, task: str, seed: int) -> Path:
    """Returns root/task/seed-N, where characters of the task that do not belong in a path become dashes.

    The path is absolute because an environment may change this process's working directory.
    """
    parts = [re.sub(r"[^\w.+-]+", "-", part) for part in task.split("/")]
    return root.absolute().joinpath(*(part for part in parts if part.strip(".")), f"seed-{seed}")


def create_run_folder(
    path: Path,
    identity: Identity,
    settings: Settings,
    compiled: bool,
    spaces: dict[str, str],
    parameters: int,  # how many numbers the agent learns
) -> RunFolder:
    """Creates a run folder and locks it. It is made aside and renamed, so that either the whole folder exists or none.

    An existing empty folder stays, since somebody may be in it; run.json is then written last.
    """
    from mrq.training.provenance import machine, versions  # it brings PyTorch, which reading a run does not need

    document = {
        "mrq": version.__version__,
        "algorithm": settings.algorithm.title,
        "task": identity.task,
        "seed": identity.seed,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": asdict(settings),
        "compiled": compiled,
        "spaces": spaces,
        "parameters": parameters,
        "machine": machine(),
        "versions": versions(),
    }
    refuse_existing(path, settings.algorithm.title)
    text = json.dumps(document, indent=1) + "\n"
    place = path if path.is_dir() else path.with_name(f".{path.name}.{os.getpid()}")
    try:
        place.mkdir(parents=True, exist_ok=True)
        (place / EVALUATIONS).write_text(",".join(COLUMNS) + "\n")
        with written_aside(place / DOCUMENT) as aside:
            aside.write_text(text)
        if place != path:
            place.rename(path)
    except OSError as error:
        if place != path:
            shutil.rmtree(place, ignore_errors=True)
        raise MRQError(f"the run folder {path} cannot be made: {error.strerror}; choose another with --runs.") from None
    run = RunFolder(path)
    run.lock()
    return run


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """Gives a path to write to, and then replaces the file with what was written; if writing fails, the file stays."""
    aside = path.with_name(path.name + ASIDE)
    try:
        yield aside
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def fingerprint(identity: Identity, settings: Settings) -> dict[str, Any]:
    """Returns what decides the numbers of a run."""
    return {
        "algorithm": settings.algorithm.title,
        "task": identity.task,
        "seed": identity.seed,
        "hyperparameters": asdict(settings.hyperparameters),
    }


def occupied(path: Path) -> bool:
    """Says whether a path exists and is not an empty folder."""
    with suppress(OSError):
        return next(path.iterdir(), None) is not None
    return os.path.exists(path)  # unlike Path.exists, this is False for a name that is too long


def refuse_existing(path: Path, title: str) -> None:
    """Refuses a path that is taken; `title` is that of the algorithm that wants it."""
    if not occupied(path):
        return
    try:
        other = RunFolder(path).title
    except MRQError:
        other = title
    if other != title:
        raise MRQError(f"{path} already holds a run of {other}; choose another place with --runs.")
    raise MRQError(
        f"the run folder {path} already exists; resume it with `mrq resume {shlex.quote(str(path))}`, "
        "or choose another place with --runs."
    )
