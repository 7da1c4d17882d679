"""Where run folders are made, and how: aside, then renamed."""

import glob
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mrq import version
from mrq.errors import MRQError
from mrq.files import remove, written_aside
from mrq.interface import Identity
from mrq.training.evaluations_table import as_text
from mrq.training.run_folder import DOCUMENT, EVALUATIONS, RunFolder, as_json, refuse_unwritable_name
from mrq.training.settings import Settings


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
    spaces: Mapping[str, Any],  # see describe_spaces
    parameters: int,  # how many numbers the agent learns
) -> RunFolder:
    """Creates a run folder and locks it. It is made aside and renamed, so that either the whole folder exists or none.

    An existing empty folder stays, since somebody may be in it; run.json is then written last. What was left aside by a
    process that was killed in the middle of this is removed.
    """
    from mrq.training.provenance import machine, versions  # it brings PyTorch, which reading a run does not need

    document = {
        "mrq": version.__version__,
        "algorithm": settings.algorithm.title,
        "preset": settings.algorithm.closest_preset(settings.hyperparameters)[0],
        "task": identity.task,
        "seed": identity.seed,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": asdict(settings),
        "compiled": compiled,
        "spaces": dict(spaces),
        "parameters": parameters,
        "machine": machine(),
        "versions": versions(),
        "saved": False,
    }
    refuse_existing(path, settings.algorithm.title)
    place = path if path.is_dir() else path.with_name(_aside(path.name, os.getpid()))
    try:
        for left in path.parent.glob(_aside(glob.escape(path.name), "*")):
            if not _is_running(left.suffix.removeprefix(".")):
                remove(left)
        if place != path:
            remove(place)
            place.mkdir(parents=True)
        with written_aside(place / EVALUATIONS) as file:
            file.write(as_text([]).encode())
        with written_aside(place / DOCUMENT) as file:
            file.write(as_json(document))
        if place != path:
            place.rename(path)
    except OSError as error:
        if place != path:
            shutil.rmtree(place, ignore_errors=True)
        raise MRQError(f"the run folder {path} cannot be made: {error.strerror}; choose another with --runs.") from None
    run = RunFolder(path)
    run.lock()
    return run


def _aside(name: str, process: int | str) -> str:
    """Returns what a run folder is called while a process makes it."""
    return f".{name}.{process}"


def _is_running(process: str) -> bool:
    """Says whether there is a process with this number; what is not a number is not ours to judge."""
    if not process.isdecimal():
        return True
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it is somebody else's
        return True
    return True


def occupied(path: Path) -> bool:
    """Says whether a path exists and is not an empty folder."""
    with suppress(OSError, ValueError):
        return next(path.iterdir(), None) is not None
    return os.path.exists(path)  # unlike Path.exists, this is False for a name that is too long or impossible


def refuse_existing(path: Path, title: str) -> None:
    """Refuses a path that is taken or has no usable name; `title` is that of the algorithm that wants it."""
    refuse_unwritable_name(path)
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
