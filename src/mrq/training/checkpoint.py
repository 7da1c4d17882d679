"""Checkpoints: folders written aside, flushed and renamed, so that a kill at any moment leaves the last good one.

A folder holds `learner.safetensors`, the replay's arrays as .npy and `checkpoint.json` with every counter and each
file's SHA-256. This module never unpickles anything. A file that the previous checkpoint also has is linked to, not
written again.
"""

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import safetensors
import safetensors.numpy

from mrq.errors import MRQError
from mrq.interface import Array

if TYPE_CHECKING:
    from torch import Tensor  # reading runs does not need PyTorch

FORMAT = 2
LEARNER = "learner.safetensors"
DOCUMENT = "checkpoint.json"
UNFINISHED = "unfinished"


class CheckpointFault(MRQError):
    """A checkpoint could not be written."""


class Digest:
    """A file that keeps only the SHA-256 of what is written to it."""

    def __init__(self) -> None:
        self.sha256 = hashlib.sha256()

    def write(self, data: Any) -> None:
        self.sha256.update(data)


def write_checkpoint(
    folder: Path, tensors: "Mapping[str, Array | Tensor]", arrays: Mapping[str, Array], counters: Mapping[str, Any]
) -> None:
    """Adds a checkpoint to `folder` and then removes the ones before it."""
    last = latest_checkpoint(folder)
    kept = {} if last is None else _by_digest(last)

    def fill(aside: Path) -> None:
        learner = safetensors.numpy.save({name: np.asarray(tensor) for name, tensor in tensors.items()})
        files = {LEARNER: _write(aside / LEARNER, lambda file: file.write(learner), kept)}
        for name, array in arrays.items():
            save = partial(np.save, arr=array, allow_pickle=False)
            files[f"{name}.npy"] = _write(aside / f"{name}.npy", save, kept)
        document = {"format": FORMAT, "counters": dict(counters), "files": files}
        document["digest"] = _digest(document)
        text = json.dumps(document, indent=1).encode()
        _write(aside / DOCUMENT, lambda file: file.write(text), kept)

    _write_folder(folder, counters["steps"], fill)


def _write_folder(folder: Path, step: int, fill: Callable[[Path], None]) -> None:
    """Makes a checkpoint of what `fill` writes into the folder that it is given."""
    earlier = _finished(folder)
    number = int(earlier[-1].name.partition("-")[0]) + 1 if earlier else 1
    aside = folder / UNFINISHED
    try:
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        fill(aside)
        _flush_folder(aside)
        aside.rename(folder / f"{number:06d}-step-{step}")
        _flush_folder(folder)
    except OSError as error:
        shutil.rmtree(aside, ignore_errors=True)
        reason = "no space is left on the disk" if error.errno in (errno.ENOSPC, errno.EDQUOT) else str(error)
        kept = f"the checkpoint of step {step_of(earlier[-1]):,} is kept" if earlier else "there is none yet"
        raise CheckpointFault(
            f"the checkpoint of step {step:,} could not be written to {folder}: {reason}; {kept}."
        ) from error
    for old in earlier:
        shutil.rmtree(old, ignore_errors=True)


def latest_checkpoint(folder: Path) -> Path | None:
    """Returns the latest finished checkpoint, or None."""
    finished = _finished(folder)
    return finished[-1] if finished else None


def step_of(checkpoint: Path) -> int:
    """Returns the environment step that a checkpoint was written at."""
    return int(checkpoint.name.rpartition("-")[2])


def read_counters(checkpoint: Path) -> dict[str, Any]:
    """Reads a checkpoint's counters, after checking them."""
    return cast(dict[str, Any], _document(checkpoint)["counters"])


def read_tensors(checkpoint: Path) -> dict[str, Array]:
    """Reads the learner's tensors, after checking them."""
    _verify(checkpoint, LEARNER, _document(checkpoint)["files"].get(LEARNER))
    try:
        return safetensors.numpy.load_file(checkpoint / LEARNER)
    except safetensors.SafetensorError:
        raise _damaged(checkpoint, LEARNER) from None


def read_arrays(checkpoint: Path) -> dict[str, Array]:
    """Maps the replay's arrays from disk, after checking them."""
    arrays = {}
    for name, digest in _document(checkpoint)["files"].items():
        if name != LEARNER:
            _verify(checkpoint, name, digest)
            try:
                arrays[name.removesuffix(".npy")] = np.load(checkpoint / name, mmap_mode="c", allow_pickle=False)
            except ValueError:  # not an array, or one that would need pickle
                raise _damaged(checkpoint, name) from None
    return arrays


def _finished(folder: Path) -> list[Path]:
    """Lists finished checkpoints, oldest first; only a rename gives a checkpoint such a name."""
    named = (path for path in folder.glob("*-step-*") if re.fullmatch(r"\d+-step-\d+", path.name))
    return sorted(path for path in named if path.is_dir()) if folder.is_dir() else []


def _document(checkpoint: Path) -> dict[str, Any]:
    try:
        document = json.loads((checkpoint / DOCUMENT).read_bytes())
        version, digest = document["format"], document.pop("digest")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise _damaged(checkpoint, DOCUMENT) from None
    if version != FORMAT:
        raise MRQError(
            f"the checkpoint {checkpoint} has format {version} and this version of mrq reads format {FORMAT}; "
            "use the version of mrq that is named in its run.json."
        )
    if digest != _digest(document):
        raise _damaged(checkpoint, DOCUMENT)
    return cast(dict[str, Any], document)


def _verify(checkpoint: Path, name: str, digest: str | None) -> None:
    try:
        with (checkpoint / name).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        raise _damaged(checkpoint, name) from None
    if found != digest:
        raise _damaged(checkpoint, name)


def _damaged(checkpoint: Path, name: str) -> MRQError:
    return MRQError(
        f"the checkpoint {checkpoint} is damaged: {name} is missing, cut short or changed since it was written; "
        "restore it from a copy, or train again."
    )


def _digest(document: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _by_digest(checkpoint: Path) -> dict[str, Path]:
    """Returns a checkpoint's files by digest; none if it cannot be read."""
    try:
        return {digest: checkpoint / name for name, digest in _document(checkpoint)["files"].items()}
    except MRQError:
        return {}


def _write(path: Path, fill: Callable[[Any], object], kept: Mapping[str, Path]) -> str:
    """Writes a file, or links to one of the `kept` files that holds the same; returns its digest."""
    digest = Digest()
    fill(digest)
    found = digest.sha256.hexdigest()
    try:
        os.link(kept[found], path)
    except (KeyError, OSError):  # not every disk has links
        with path.open("wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
    return found


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
