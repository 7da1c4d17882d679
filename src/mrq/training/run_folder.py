"""The folder of one run: one task, one seed, all that came of it.

run.json             what was asked for, and the versions of everything
evaluations.csv      one row an evaluation
learning_curve.png   the same, as a picture
tensorboard/         losses, values, reward scale, speed, training returns
checkpoints/         the latest complete state
lock                 empty; held by the process that trains the run
"""

import csv
import fcntl
import importlib.metadata
import json
import os
import platform
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from mrq import version
from mrq.errors import DAMAGE, MRQError, one_line
from mrq.hyperparameters import Hyperparameters
from mrq.interface import Agent, Array
from mrq.training.checkpoint import latest_checkpoint, read_arrays, read_counters, read_tensors, step_of
from mrq.training.evaluation import Evaluation
from mrq.training.settings import Settings

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

MRQ = "MR.Q"  # the algorithm of every run but a baseline's
DOCUMENT, EVALUATIONS = TABLES = ("run.json", "evaluations.csv")  # what was asked for, and what came of it
CHECKPOINTS, TENSORBOARD = "checkpoints", "tensorboard"
ASIDE = ".unfinished"  # how files end that are being written
State = tuple[dict[str, torch.Tensor], dict[str, Array], dict[str, Any]]  # as Population.state_of gives it
COLUMNS = ("task", "seed", "step", "return_mean", "return_std", "length_mean", "episodes", "seconds")


class RunFolder:
    """An existing run folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            document = json.loads((path / DOCUMENT).read_text())
            settings = dict(document["settings"])
            hyperparameters = Hyperparameters(**settings.pop("hyperparameters", {}))
            self.task, self.seed = str(document["task"]), int(document["seed"])
            self.settings = Settings(**settings, hyperparameters=hyperparameters).completed([self.task])
            self.compiled, self.spaces = bool(document["compiled"]), dict(document["spaces"])
            self.algorithm, self.parameters = str(document.get("algorithm", MRQ)), int(document.get("parameters", 0))
            self.made_by = str(document.get("mrq", ""))  # the version of mrq
            self.machine, self.versions = dict(document.get("machine", {})), dict(document.get("versions", {}))
        except FileNotFoundError:
            raise MRQError(f"there is no run in {path}: it has no run.json.") from None
        except NotADirectoryError:
            raise MRQError(f"{path} is not a folder; give a run folder, such as runs/Pendulum-v1/seed-0.") from None
        except DAMAGE as error:
            raise MRQError(f"{path / DOCUMENT} cannot be read ({error}); restore it from a copy.") from None
        self._writer: SummaryWriter | None = None
        self._lock: int | None = None

    @property
    def agent(self) -> Agent:
        return Agent(self.task, self.seed)

    @property
    def identity(self) -> dict[str, Any]:
        """What a checkpoint must have been written by to belong to this run."""
        return identity(self.task, self.seed, self.settings.hyperparameters)

    @property
    def checkpoints(self) -> Path:
        return self.path / CHECKPOINTS

    @property
    def checkpoint(self) -> Path:
        """The latest checkpoint."""
        latest = latest_checkpoint(self.checkpoints)
        if latest is None:
            raise MRQError(f"the run in {self.path} has no checkpoint yet.")
        return latest

    @property
    def step(self) -> int:
        """That it has come to, by its latest checkpoint."""
        latest = latest_checkpoint(self.checkpoints)
        return 0 if latest is None else step_of(latest)

    @property
    def unfinished(self) -> bool:
        """Whether there are steps left of those asked for, or the evaluation after them."""
        rows = self.evaluations()
        owes = self.settings.evaluation_period > 0 and (not rows or int(rows[-1]["step"]) < self.step)
        return self.step < self.settings.total_steps or owes

    def saved_state(self) -> State | None:
        """What its last checkpoint holds; None where it has none."""
        checkpoint = latest_checkpoint(self.checkpoints)
        if checkpoint is None:
            return None
        return read_tensors(checkpoint), read_arrays(checkpoint), self.counters_of(checkpoint)

    def counters_of(self, checkpoint: Path) -> dict[str, Any]:
        """Refuses a checkpoint that another run.json belongs to."""
        counters = read_counters(checkpoint)
        written = counters["run"] | {"hyperparameters": asdict(Hyperparameters()) | counters["run"]["hyperparameters"]}
        if written != self.identity:  # what an older version did not have yet is as it was then
            raise MRQError(
                f"the task, seed or hyperparameters in {self.path / DOCUMENT} are not those of its checkpoint; "
                "restore the file from a copy."
            )
        return counters

    def check_spaces(self, spaces: dict[str, str]) -> None:
        for kind, space in spaces.items():
            trained_with = self.spaces.get(kind)
            if space != trained_with:
                raise MRQError(
                    f"the run in {self.path} was trained with the {kind} space {trained_with} and the environment "
                    f"now has {space}; use the environment it was trained with."
                )

    def refuse_baseline(self) -> None:
        if self.algorithm != MRQ:
            raise MRQError(
                f"the run in {self.path} is one of {self.algorithm}, which `mrq bench --algorithm` goes on with."
            )

    def extend(self, steps: int) -> None:
        """Asks for another number of steps from now on."""
        self.settings = replace(self.settings, steps=steps)
        document = json.loads((self.path / DOCUMENT).read_text())
        document["settings"]["steps"] = steps
        with written_aside(self.path / DOCUMENT) as aside:
            aside.write_text(json.dumps(document, indent=1) + "\n")

    def lock(self) -> None:
        """Keeps a second process from training the same run; released when this one ends.

        Of a file rather than of the folder, so that other machines see it on a disk that they share by NFS.
        """
        try:
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MRQError(f"another process is training the run in {self.path}; wait for it, or stop it.") from None
        except OSError as error:
            raise MRQError(f"the run in {self.path} cannot be locked: {error.strerror}.") from None

    def rewind(self, step: int) -> None:
        """Forgets the evaluations after `step`, which a resumed run will come to again."""
        kept = [row for row in self.evaluations() if int(row["step"]) <= step]
        with written_aside(self.path / EVALUATIONS) as aside, aside.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(kept)

    def evaluations(self) -> list[dict[str, str]]:
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

    def record_evaluation(self, step: int, evaluation: Evaluation, seconds: float) -> None:
        """`seconds` that training had taken before it."""
        numbers = [f"{number:.8g}" for number in (evaluation.mean, evaluation.std, evaluation.mean_length)]
        row = (self.task, self.seed, step, *numbers, len(evaluation.returns), f"{seconds:.1f}")
        with (self.path / EVALUATIONS).open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(row)
            file.flush()
            os.fsync(file.fileno())
        self.record_metrics(step, {"evaluation/return": evaluation.mean, "evaluation/length": evaluation.mean_length})

    def record_metrics(self, step: int, metrics: dict[str, float]) -> None:
        if self._writer is None:
            # Importing TensorBoard takes seconds; what only reads a run need not wait for it.
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(self.path / TENSORBOARD), purge_step=step)
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def run_path(root: Path, task: str, seed: int) -> Path:
    """root/task/seed-N, the task as it is but for what does not belong into a path.

    Absolute, since an environment may take this process to another folder.
    """
    parts = [re.sub(r"[^\w.+-]+", "-", part) for part in task.split("/")]
    return root.absolute().joinpath(*(part for part in parts if part.strip(".")), f"seed-{seed}")


def create_run_folder(
    path: Path,
    task: str,
    seed: int,
    settings: Settings,
    compiled: bool,
    spaces: dict[str, str],
    parameters: int,  # how many numbers the agent learns
    algorithm: str = MRQ,
) -> RunFolder:
    """Made aside and renamed, so that either the whole folder is there or none; comes locked.

    An empty folder that is there stays, since somebody may be in it, and run.json comes into it last.
    """
    asked = asdict(settings)
    if algorithm != MRQ:
        del asked["hyperparameters"]  # they are MR.Q's
    document = {
        "mrq": version.__version__,
        "algorithm": algorithm,
        "task": task,
        "seed": seed,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": asked,
        "compiled": compiled,
        "spaces": spaces,
        "parameters": parameters,
        "machine": _machine(),
        "versions": _versions(),
    }
    refuse_existing(path)
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
    """Where to write a file that then takes the place of the one that was there; that one stays if it goes wrong."""
    aside = path.with_name(path.name + ASIDE)
    try:
        yield aside
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def identity(task: str, seed: int, hyperparameters: Hyperparameters) -> dict[str, Any]:
    return {"task": task, "seed": seed, "hyperparameters": asdict(hyperparameters)}


def occupied(path: Path) -> bool:
    """Whether there is anything; an empty folder is as good as none."""
    with suppress(OSError):
        return next(path.iterdir(), None) is not None
    return os.path.exists(path)  # False, where Path.exists raises, for a name too long to be a file's


def refuse_existing(path: Path) -> None:
    if occupied(path):
        raise MRQError(
            f"the run folder {path} already exists; go on with it by `mrq resume {shlex.quote(str(path))}`, "
            "or choose another place with --runs."
        )


def _machine() -> dict[str, Any]:
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "platform": platform.platform(),
        "cpu": _cpu(),
        "cpus": len(os.sched_getaffinity(0)),
        "torch_threads": torch.get_num_threads(),
        "gpus": gpus,
    }


def _cpu() -> str:
    """Its name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [
        value.strip() for name, _, value in (line.partition(":") for line in lines) if name.strip() == "model name"
    ]
    return names[0] if names else platform.processor()


def _versions() -> dict[str, str]:
    packages = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions()}
    return {"python": platform.python_version(), **dict(sorted(packages.items(), key=lambda item: item[0].lower()))}
