"""Checkpoints: folders written aside, flushed and renamed, so that a kill at any moment leaves the last good one.

A folder holds `learner.safetensors`, the replay's arrays as .npy and `checkpoint.json` with every counter and each
file's SHA-256. This module never unpickles anything. The checkpoint before the latest one is kept as well. A file that
did not change since then is compared with it, byte by byte, and linked to; so what a disk spoiled is written anew.
"""

import errno
import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np
import safetensors
import safetensors.numpy

from mrq.errors import DAMAGE, MRQError
from mrq.files import is_folder, open_new, read_text, reading, remove
from mrq.interface import Array

if TYPE_CHECKING:
    from torch import Tensor  # reading runs does not need PyTorch

FORMAT = 2
LEARNER = "learner.safetensors"
DOCUMENT = "checkpoint.json"
UNFINISHED = "unfinished"
LARGEST_DOCUMENT = 100_000_000  # bytes
COMPARED_AT_ONCE = 1_000_000  # bytes
LARGEST_FILE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")  # what is restored must fit into memory
Result = TypeVar("Result")


class AgentState(NamedTuple):
    """All that one agent needs to continue, alone or beside others."""

    tensors: "Mapping[str, Array | Tensor]"  # the learner's
    arrays: Mapping[str, Array]  # the replay's
    counters: Mapping[str, Any]


class CheckpointFault(MRQError):
    """A checkpoint could not be written."""


class Damage(MRQError):
    """A checkpoint cannot be read."""

    def __init__(self, checkpoint: Path, name: str) -> None:
        self.what = (
            f"the checkpoint {checkpoint} is damaged: {name} is missing, cut short or changed since it was written"
        )
        super().__init__(f"{self.what}; restore it from a copy, or train again.")


def write_checkpoint(
    folder: Path,
    tensors: "Mapping[str, Array | Tensor]",
    arrays: Mapping[str, Array],
    counters: Mapping[str, Any],
    previous: Path | None = None,
) -> Path:
    """Adds a checkpoint to `folder`, removes all but it and the `previous` one, and returns it.

    The previous one is by default the latest.
    """
    finished = _finished(folder)
    if previous is None and finished:
        previous = finished[-1]
    number = int(finished[-1].name.partition("-")[0]) + 1 if finished else 1
    place, aside = folder / f"{number:06d}-step-{counters['steps']}", folder / UNFINISHED
    try:
        remove(aside)
        aside.mkdir(parents=True)
        _fill(aside, tensors, arrays, counters, previous)
        _flush_folder(aside)
        aside.rename(place)
        _flush_folder(folder)
    except OSError as error:
        shutil.rmtree(aside, ignore_errors=True)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "no space is left on the disk" if full else str(error)
        raise CheckpointFault(
            f"the checkpoint of step {counters['steps']:,} could not be written to {folder}: {reason}; "
            f"{_kept(previous)}."
        ) from error
    for old in finished:
        if old != previous:
            shutil.rmtree(old, ignore_errors=True)
    return place


def _fill(
    aside: Path,
    tensors: "Mapping[str, Array | Tensor]",
    arrays: Mapping[str, Array],
    counters: Mapping[str, Any],
    previous: Path | None,
) -> None:
    learner = safetensors.numpy.save({name: np.asarray(tensor) for name, tensor in tensors.items()})
    contents = {LEARNER: [memoryview(learner)]}
    contents |= {f"{name}.npy": _as_npy(array) for name, array in arrays.items()}
    known, files = _known(previous), {}
    for name, parts in contents.items():
        if previous is not None and name in known and _linked(previous / name, aside / name, parts):
            files[name] = known[name]
        else:
            files[name] = _write(aside / name, parts)
    document = {"format": FORMAT, "counters": dict(counters), "files": files}
    document["digest"] = digest_of(document)
    text = json.dumps(document, indent=1).encode()
    _write(aside / DOCUMENT, [memoryview(text)])


def remove_all_but(checkpoint: Path) -> None:
    """Removes all other checkpoints in its folder."""
    for other in _finished(checkpoint.parent):
        if other != checkpoint:
            shutil.rmtree(other, ignore_errors=True)


def newest_sound(folder: Path, read: Callable[[Path], Result], say: Callable[[str], None]) -> Result | None:
    """Returns what `read` makes of the latest checkpoint, or of the one before if that is damaged; None without any."""
    damage: Damage | None = None
    for checkpoint in reversed(_finished(folder)):
        try:
            found = read(checkpoint)
        except Damage as error:
            damage = damage or error
            continue
        if damage is not None:
            say(f"{damage.what}; the one before it, of step {step_of(checkpoint):,}, is used.")
        return found
    if damage is not None:
        raise damage
    return None


def latest_checkpoint(folder: Path) -> Path | None:
    """Returns the latest finished checkpoint, or None."""
    finished = _finished(folder)
    return finished[-1] if finished else None


def step_of(checkpoint: Path) -> int:
    """Returns the environment step that a checkpoint was written at."""
    return int(read_counters(checkpoint)["steps"])


def read_counters(checkpoint: Path) -> dict[str, Any]:
    """Reads a checkpoint's counters, after checking them."""
    counters = _document(checkpoint)["counters"]
    if not isinstance(counters, dict) or type(counters.get("steps")) is not int or counters["steps"] < 0:
        raise Damage(checkpoint, DOCUMENT)
    return counters


def read_tensors(checkpoint: Path) -> dict[str, Array]:
    """Reads the learner's tensors, after checking them."""
    _verify(checkpoint, LEARNER, _digests(checkpoint).get(LEARNER))
    try:
        return safetensors.numpy.load_file(checkpoint / LEARNER)
    except (*DAMAGE, safetensors.SafetensorError):
        raise Damage(checkpoint, LEARNER) from None


def read_arrays(checkpoint: Path) -> dict[str, Array]:
    """Maps the replay's arrays from disk, after checking them."""
    arrays = {}
    for name, digest in _digests(checkpoint).items():
        if name != LEARNER:
            _verify(checkpoint, name, digest)
            try:
                with np.errstate(all="ignore"):  # of sizes in a header that no file has
                    arrays[name.removesuffix(".npy")] = np.load(checkpoint / name, mmap_mode="c", allow_pickle=False)
            except Exception:  # not an array, or one that would need pickle; headers are parsed as Python
                raise Damage(checkpoint, name) from None
    return arrays


def _finished(folder: Path) -> list[Path]:
    """Lists finished checkpoints, oldest first; only a rename gives a checkpoint such a name."""
    if folder.is_symlink():
        raise MRQError(f"{folder} is a symbolic link; replace it with the folder itself.")
    named = (path for path in folder.glob("*-step-*") if re.fullmatch(r"\d{1,12}-step-\d{1,12}", path.name, re.ASCII))
    return sorted(filter(is_folder, named), key=lambda path: int(path.name.partition("-")[0]))


def _document(checkpoint: Path) -> dict[str, Any]:
    try:
        document = json.loads(read_text(checkpoint / DOCUMENT, LARGEST_DOCUMENT))
        version, digest = document["format"], document.pop("digest")
    except DAMAGE:
        raise Damage(checkpoint, DOCUMENT) from None
    if digest != digest_of(document):  # in every format, so that a damaged number is not taken for another format
        raise Damage(checkpoint, DOCUMENT)
    if version != FORMAT:
        raise MRQError(
            f"the checkpoint {checkpoint} has format {version} and this version of mrq reads format {FORMAT}; "
            "use the version of mrq that is named in its run.json."
        )
    return cast(dict[str, Any], document)


def _known(previous: Path | None) -> dict[str, str]:
    """Returns the digests of the files of the checkpoint before; none if it cannot be read."""
    try:
        return {} if previous is None else _digests(previous)
    except MRQError:
        return {}


def _digests(checkpoint: Path) -> dict[str, str]:
    """Returns the digest of each of a checkpoint's files, by name; refuses names that lead out of its folder."""
    files = _document(checkpoint).get("files")
    names = r"[\w-]+\.npy|" + re.escape(LEARNER)
    if not isinstance(files, dict) or not all(re.fullmatch(names, name, re.ASCII) for name in files):
        raise Damage(checkpoint, DOCUMENT)
    return files


def _verify(checkpoint: Path, name: str, digest: str | None) -> None:
    try:
        with reading(checkpoint / name, LARGEST_FILE) as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        raise Damage(checkpoint, name) from None
    if found != digest:
        raise Damage(checkpoint, name)


def _kept(previous: Path | None) -> str:
    """Says which checkpoint is left where one could not be written."""
    try:
        return "there is none yet" if previous is None else f"the checkpoint of step {step_of(previous):,} is kept"
    except MRQError:
        return "the one before it is kept"


def digest_of(document: Mapping[str, Any]) -> str:
    """Returns the digest that a JSON document, such as checkpoint.json or run.json, has beside its content."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _as_npy(array: Array) -> list[memoryview]:
    """Returns the bytes of an .npy file in two parts, of which the larger one is the array's own memory."""
    array, header = np.asarray(array, order="C"), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    return [memoryview(header.getvalue()), array.reshape(-1).view(np.uint8).data]


def _write(path: Path, parts: Sequence[memoryview]) -> str:
    """Writes bytes to a file; returns its digest."""
    digest = hashlib.sha256()
    with open_new(path) as file:
        for part in parts:
            digest.update(part)
            file.write(part)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _linked(before: Path, path: Path, parts: Sequence[memoryview]) -> bool:
    """Links to a file that holds exactly these bytes; says whether it did."""
    try:
        with reading(before, LARGEST_FILE) as file:
            if not all(_comes_next(file, part) for part in parts) or file.read(1):
                return False
        os.link(before, path)
    except OSError:  # it is damaged, or the disk has no links
        return False
    return True


def _comes_next(file: BufferedReader, part: memoryview) -> bool:
    """Says whether these bytes are the next ones of a file."""
    scratch = np.empty(min(len(part), COMPARED_AT_ONCE), np.uint8)
    for begin in range(0, len(part), COMPARED_AT_ONCE):
        expected = part[begin : begin + COMPARED_AT_ONCE]
        found = scratch[: file.readinto(scratch.data[: len(expected)])]
        if not np.array_equal(found, expected):
            return False
    return True


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
