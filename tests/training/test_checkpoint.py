"""Checkpoints: what is written is read again, and damage is found."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from mrq import MRQError
from mrq.training import checkpoint
from mrq.training.checkpoint import (
    latest_checkpoint,
    newest_sound,
    read_arrays,
    read_counters,
    read_tensors,
    step_of,
    write_checkpoint,
)

TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor(3.0)}
ARRAYS = {
    "frames": np.arange(24, dtype=np.uint8).reshape(2, 12),
    "flag": np.array(True),
    "empty": np.zeros((0, 3), np.float32),
}


def write(folder: Path, steps: int = 5) -> Path:
    write_checkpoint(folder, TENSORS, ARRAYS, {"steps": steps, "replay": {"filled": 2}})
    return latest_checkpoint(folder)


def read(path):
    return read_tensors(path), read_arrays(path), read_counters(path)


def test_round_trip(tmp_path):
    tensors, arrays, counters = read(write(tmp_path))
    assert counters == {"steps": 5, "replay": {"filled": 2}}
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == np.float32
        np.testing.assert_array_equal(tensors[name], tensor.numpy())
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)


def test_the_latest_and_the_one_before_are_kept(tmp_path):
    write(tmp_path, 5)
    before = write(tmp_path, 900)
    path = write(tmp_path, 1_000)
    assert sorted(p.name for p in tmp_path.iterdir()) == [before.name, path.name]
    assert (step_of(before), step_of(path)) == (900, 1_000)
    read(before)


def test_the_one_before_is_the_one_that_is_named(tmp_path):
    good, damaged = write(tmp_path, 5), write(tmp_path, 6)
    path = write_checkpoint(tmp_path, TENSORS, ARRAYS, {"steps": 7}, previous=good)
    assert sorted(tmp_path.iterdir()) == [good, path]
    assert not damaged.exists()


def test_a_step_is_read_from_the_content(tmp_path):
    path = write(tmp_path, 5)
    path.rename(tmp_path / "000001-step-900")
    assert step_of(tmp_path / "000001-step-900") == 5


def test_the_one_before_is_used_where_the_latest_is_damaged(tmp_path):
    said = []
    write(tmp_path, 5)
    latest = write(tmp_path, 6)
    assert newest_sound(tmp_path, step_of, said.append) == 6
    assert not said
    (latest / "frames.npy").unlink()  # it is linked, so writing to it would damage both
    assert newest_sound(tmp_path, lambda path: (read_arrays(path), step_of(path))[1], said.append) == 5
    (sentence,) = said
    assert sentence.endswith(
        "000002-step-6 is damaged: frames.npy is missing, cut short or changed since it was written; "
        "the one before it, of step 5, is used."
    )
    for file in tmp_path.rglob("checkpoint.json"):
        file.write_text("{}")
    with pytest.raises(MRQError, match=r"000002-step-6 is damaged: checkpoint\.json"):
        newest_sound(tmp_path, step_of, said.append)
    assert newest_sound(tmp_path / "nothing", step_of, said.append) is None


@pytest.mark.parametrize("place", [130, -1])  # in the array, and nowhere that numpy looks at
def test_a_file_that_the_disk_spoiled_is_written_anew_from_memory(tmp_path, place):
    frames = write(tmp_path, 5) / "frames.npy"
    content = bytearray(frames.read_bytes())
    content[place if place > 0 else content.index(b"    ")] ^= 1
    frames.write_bytes(content)
    path = write(tmp_path, 6)
    assert (path / "frames.npy").stat().st_ino != frames.stat().st_ino
    read(path)


def test_files_that_the_previous_checkpoint_also_has_are_linked_to(tmp_path):
    write(tmp_path, 5)
    frames = tmp_path / "000001-step-5" / "frames.npy"
    was, other = frames.stat().st_ino, ARRAYS | {"flag": np.array(False), "more": ARRAYS["frames"] + 1}
    path = write_checkpoint(tmp_path, TENSORS, other, {"steps": 6})
    assert (path / "frames.npy").stat().st_ino == was
    assert (path / "frames.npy").stat().st_nlink == 2
    _, arrays, _ = read(path)
    for name, array in other.items():
        np.testing.assert_array_equal(arrays[name], array)


def test_a_disk_without_links_gets_copies(tmp_path, monkeypatch):
    def unsupported(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", unsupported)
    write(tmp_path, 5)
    read(write(tmp_path, 6))


def test_a_damaged_checkpoint_is_followed_by_a_good_one(tmp_path):
    (write(tmp_path, 5) / "checkpoint.json").write_text("{}")
    read(write(tmp_path, 6))


@pytest.mark.parametrize("name", ["learner.safetensors", "frames.npy", "checkpoint.json"])
@pytest.mark.parametrize("damage", ["cut short", "changed", "removed"])
def test_damage_is_found_and_named(tmp_path, name, damage):
    path = write(tmp_path)
    file = path / name
    content = bytearray(file.read_bytes())
    if damage == "cut short":
        file.write_bytes(content[:-3])
    elif damage == "changed":
        place = content.index(b'"steps": 5') + 9 if name == "checkpoint.json" else len(content) - 1
        content[place] ^= 1
        file.write_bytes(content)
    else:
        file.unlink()
    with pytest.raises(MRQError, match=f"damaged: {name}"):
        read(path)


def test_a_damaged_number_of_the_format_is_not_taken_for_another_format(tmp_path):
    write(tmp_path, 5)
    document = write(tmp_path, 6) / "checkpoint.json"
    document.write_text(document.read_text().replace('"format": 2', '"format": 3'))
    assert newest_sound(tmp_path, step_of, lambda _: None) == 5


def test_another_format_is_refused_by_name(tmp_path):
    path = write(tmp_path)
    document = json.loads((path / "checkpoint.json").read_text())
    del document["digest"]
    document["format"] = 99
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    (path / "checkpoint.json").write_text(json.dumps(document | {"digest": digest}))
    with pytest.raises(MRQError, match="has format 99 and this version of mrq reads format 2"):
        read(path)


def test_pickles_are_not_loaded(tmp_path, monkeypatch):
    path = write(tmp_path)
    np.save(path / "frames.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    monkeypatch.setattr(checkpoint, "_verify", lambda *_: None)  # as if the digests had been forged too
    with pytest.raises(MRQError, match=r"damaged: frames\.npy"):
        read_arrays(path)


def test_a_full_disk_keeps_the_last_good_checkpoint(tmp_path, monkeypatch):
    path = write(tmp_path)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MRQError, match="no space is left on the disk; the checkpoint of step 5 is kept"):
        write(tmp_path, 6)
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    read(path)


def test_copies_with_other_names_are_ignored(tmp_path):
    path = write(tmp_path)
    for name in ("old-000001-step-5", "backup-step-9", "000002-step-5.bak"):
        shutil.copytree(path, tmp_path / name)
    assert latest_checkpoint(tmp_path) == path
    assert write(tmp_path, 6).name == "000002-step-6"


def test_files_that_a_kill_left_are_ignored(tmp_path):
    path = write(tmp_path)
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "learner.safetensors").write_bytes(b"half")
    assert latest_checkpoint(tmp_path) == path
    assert step_of(write(tmp_path, 7)) == 7
