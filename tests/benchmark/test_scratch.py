"""Temporary folders of workers, some of which are killed."""

import multiprocessing
import os
import tempfile

import pytest

from mrq.benchmark.scratch import keep, scratch_folder


@pytest.fixture(autouse=True)
def _temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def be_killed(tmp_path):
    tempfile.tempdir = str(tmp_path)
    with scratch_folder() as folder:
        (folder / "replay").write_text("gigabytes")
        os._exit(1)


def test_a_folder_is_removed_at_the_end(tmp_path):
    with scratch_folder() as folder:
        (folder / "file").write_text("")
        assert folder.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_the_next_worker_removes_the_folder_of_a_killed_one_and_nothing_else(tmp_path):
    with scratch_folder() as folder:
        (folder / "file").write_text("unsent")
        kept = keep(folder)
    others = tmp_path / "mrq-others"
    others.mkdir()
    dead = multiprocessing.get_context("spawn").Process(target=be_killed, args=(tmp_path,))
    dead.start()
    dead.join()
    (left,) = set(tmp_path.iterdir()) - {kept, others}
    assert (left / "replay").exists()
    with scratch_folder() as first, scratch_folder() as second:
        assert set(tmp_path.iterdir()) == {first, second, kept, others}
    assert (kept / "file").read_text() == "unsent"
