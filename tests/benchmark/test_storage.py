"""Runs at an address: nothing is lost, wherever a worker is cut off."""

import errno
import os
import re
import shutil
import tempfile
import threading
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from mrq import MRQError
from mrq.benchmark import storage
from mrq.benchmark.matrix import State, jobs, state_of
from mrq.benchmark.storage import Outbox, TakenOver, at_address, at_hand, fetch, is_address, mirror, store_at
from mrq.benchmark.variants import DEFAULT
from mrq.training.checkpoint import step_of, write_folder
from mrq.training.evaluation import Evaluation
from mrq.training.run_folder import RunFolder, create_run_folder
from mrq.training.settings import Settings
from tests.command_line import steps_in

RUN, OTHER = "gym/Hopper-v4/seed-0", "gym/Hopper-v4/seed-1"


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path):
    name = uuid.uuid4().hex
    return store_at(f"memory://{name}" if request.param == "memory" else f"file://{tmp_path / name}")


@pytest.fixture
def job(tmp_path, small):
    settings = Settings(steps=300, evaluate_every=100, hyperparameters=small)
    return jobs(["gym/Hopper-v4"], [DEFAULT], [0], settings, tmp_path / "worker")[0]


@pytest.fixture(autouse=True)
def _temporary(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))


class CutOff(Exception):
    pass


class Frail:
    """A file system that fails once no changes are left, half of a file being there."""

    def __init__(self, files):
        self._files, self.left = files, 1_000

    def __getattr__(self, name):
        method = getattr(self._files, name)
        if name not in ("put_file", "pipe_file", "mv", "rm"):
            return method

        def counted(*arguments, **named):
            self.left -= 1
            if self.left < 0:
                if name == "put_file" and self.left == -1:
                    with open(arguments[0], "rb") as file:
                        whole = file.read()
                    self._files.pipe_file(arguments[1], whole[: len(whole) // 2])
                raise CutOff
            return method(*arguments, **named)

        return counted


def begin(job):
    return create_run_folder(job.path, *job.agent, job.settings, False, {}, 1)


def come_to(run, step):
    """An evaluation and a checkpoint."""
    run.record_evaluation(step, Evaluation([float(step), step + 1.0], [step, step]), float(step))
    write_folder(run.checkpoints, step, lambda folder: (folder / "state").write_text(f"learned by {step}"))


def test_what_is_sent_is_what_is_fetched_and_what_a_matrix_sees(store, job, tmp_path):
    outbox = Outbox(store, RUN, job.path, "one")
    run = begin(job)
    for step in (0, 100, 300):
        come_to(run, step)
        outbox.send()
    run.close()
    outbox.send()
    assert fetch(store, RUN, tmp_path / "other") == "000003-step-300"
    other = RunFolder(tmp_path / "other")
    assert other.evaluations() == run.evaluations()
    assert [path.name for path in other.checkpoint.iterdir()] == ["state"]
    assert (other.checkpoint / "state").read_text() == "learned by 300"
    assert {path.split("/")[1] for path in store.listed(RUN) if path.startswith("checkpoints")} == {"000003-step-300"}
    assert any(path.startswith("tensorboard/") for path in store.listed(RUN))
    mirror(store, tmp_path / "driver")
    (seen,) = jobs(["gym/Hopper-v4"], [DEFAULT], [0], job.settings, tmp_path / "driver")
    assert state_of(seen) == (State.FINISHED, 300, "")


@pytest.mark.parametrize("begun", [True, False])  # by a worker before
def test_a_worker_may_be_cut_off_anywhere(begun, store, job, tmp_path):
    places, cut_off = [], True
    while cut_off:
        changes = len(places)  # that the worker comes to
        there, folder = store_at(f"{store.address}/{changes}"), tmp_path / str(changes)
        if begun:
            first = replace(job, root=folder / "first")
            outbox = Outbox(there, RUN, first.path, "first")
            run = begin(first)
            come_to(run, 0)
            run.close()
            outbox.send()
        frail = there._replace(files=Frail(there.files))
        worker = replace(job, root=folder / "worker")
        outbox = Outbox(frail, RUN, worker.path, "worker")
        run = RunFolder(worker.path) if begun else begin(worker)
        come_to(run, 100)
        run.close()
        frail.files.left = changes
        cut_off = False
        try:
            outbox.send()
        except CutOff:
            cut_off = True
        next_one = folder / "next"
        fetched = fetch(there, RUN, next_one)
        if fetched is not None:
            step = step_of(next_one / "checkpoints" / fetched)
            assert (next_one / "checkpoints" / fetched / "state").read_text() == f"learned by {step}"
            evaluated = [0, 100] if begun else [100]
            assert [at for at in steps_in(next_one) if at <= step] == [at for at in evaluated if at <= step]
        mirror(there, folder / "driver")
        state, step, why = state_of(replace(job, root=folder / "driver"))
        assert (state.due, why) == (True, "")  # whatever there is can be gone on with
        assert step == (0 if fetched is None else step_of(Path(fetched)))
        places.append((fetched, state))
    steps = [-1 if fetched is None else step_of(Path(fetched)) for fetched, _ in places]
    assert steps == sorted(steps)
    assert steps.count(0 if begun else -1) > 8  # files before the checkpoint, and its own
    assert steps[-1] == 100
    assert begun or {state for _, state in places} == {State.TO_DO, State.UNFINISHED}
    assert not begun or steps.count(100) > 1  # the older one, which is removed last


def test_a_checkpoint_may_have_folders(store, job, tmp_path):
    def fill(folder):
        (folder / "replay" / "deep").mkdir(parents=True)
        (folder / "replay" / "deep" / "sent").write_text("of the checkpoint")

    outbox = Outbox(store, RUN, job.path, "one")
    run = begin(job)
    write_folder(run.checkpoints, 200, fill)
    run.close()
    outbox.send()
    assert fetch(store, RUN, tmp_path / "other") == "000001-step-200"
    other = RunFolder(tmp_path / "other")
    assert (other.checkpoint / "replay" / "deep" / "sent").read_text() == "of the checkpoint"
    mirror(store, tmp_path / "driver")
    assert RunFolder(tmp_path / "driver" / RUN).step == 200


def test_a_run_without_a_checkpoint_begins_anew(store, job, tmp_path):
    begin(job).close()
    Outbox(store, RUN, job.path, "one").send()
    assert fetch(store, RUN, tmp_path / "other") is None
    assert not (tmp_path / "other").exists()
    mirror(store, tmp_path / "driver")
    assert RunFolder(tmp_path / "driver" / RUN).step == 0


def test_only_one_worker_sends_a_run(store, job, tmp_path):
    first = Outbox(store, RUN, job.path, "first")
    run = begin(job)
    come_to(run, 0)
    first.send()
    second = Outbox(store, RUN, tmp_path / "second", "second")
    come_to(run, 100)
    run.close()
    with pytest.raises(TakenOver, match=r"another worker has taken over the run in .*seed-0"):
        first.send()
    assert {path for path in store.listed(RUN) if "step-100" in path} == set()
    come_to(RunFolder(tmp_path / "second"), 100)
    second.send()
    assert fetch(store, RUN, tmp_path / "third") == "000002-step-100"


def test_what_was_trained_last_is_sent_when_all_is_over(store, job, tmp_path):
    with at_address(store.address, [RUN], "one") as (folder, _):
        run = begin(replace(job, root=folder))
        come_to(run, 0)
        run.close()
    with at_address(store.address, [RUN], "two") as (folder, lost):
        run = RunFolder(folder / RUN)
        assert steps_in(run.path) == [0]
        come_to(run, 100)
        run.close()
    assert (lost, folder.exists()) == ({}, False)
    assert fetch(store, RUN, tmp_path / "other") == "000002-step-100"
    assert steps_in(tmp_path / "other") == [0, 100]


def two_in_training(job, folder):
    """The runs of a fleet, each at a checkpoint."""
    made = []
    for seed in (0, 1):
        run = begin(replace(job, root=folder, agent=job.agent._replace(seed=seed)))
        come_to(run, 0)
        made.append(run)
    return made


def test_a_run_that_is_taken_over_does_not_keep_the_others_from_being_sent(store, job, tmp_path):
    with at_address(store.address, [RUN, OTHER], "one") as (folder, lost):
        Outbox(store, RUN, tmp_path / "second", "second")
        for run in two_in_training(job, folder):
            run.close()
    assert list(lost) == [RUN]
    assert lost[RUN] == f"another worker has taken over the run in {store.address}/{RUN}."
    assert not folder.exists()
    assert fetch(store, RUN, tmp_path / "third") is None
    assert fetch(store, OTHER, tmp_path / "other") == "000001-step-0"


def test_what_cannot_be_sent_is_tried_again_and_then_kept(store, job, tmp_path, monkeypatch, failing):
    """One of two; the other is sent."""
    monkeypatch.setattr(storage, "SENDING", 0.01)
    monkeypatch.setattr(storage, "SENDING_LAST", 0.2)
    with at_address(store.address, [RUN, OTHER], "one") as (folder, lost):
        failing.add(RUN)
        for run in two_in_training(job, folder):
            run.close()
    assert list(lost) == [RUN]
    sentence = (
        rf"what was trained last could not be sent to {store.address}: CutOff: of {RUN}; it is kept on .* in (.*)\."
    )
    kept = Path(re.fullmatch(sentence, lost[RUN])[1])
    assert (RunFolder(kept).step, steps_in(kept)) == (0, [0])
    assert fetch(store, OTHER, tmp_path / "other") == "000001-step-0"
    failing.clear()
    monkeypatch.setattr(storage, "SENDING_LAST", 60.0)
    with at_address(store.address, [RUN], "two") as (folder, lost):
        run = begin(replace(job, root=folder))
        come_to(run, 100)
        run.close()
        failing.add(RUN)
        threading.Timer(0.2, failing.clear).start()  # it answers again
    assert (lost, folder.exists()) == ({}, False)
    assert fetch(store, RUN, tmp_path / "third") == "000001-step-100"
    assert kept.exists()  # no worker removes it


@pytest.fixture
def failing(monkeypatch):
    """Runs that cannot be sent while they are in this set."""
    runs, send = set(), Outbox.send

    def may_fail(outbox):
        if outbox._run in runs:
            raise CutOff(f"of {outbox._run}")
        send(outbox)

    monkeypatch.setattr(Outbox, "send", may_fail)
    return runs


def checkpoint_replaced_after(monkeypatch, run, files):
    """Once so many files of a checkpoint are held, the next one is there, and removes it."""
    link, left = os.link, [files]

    def replaced(*arguments):
        if left[0] == 0:
            write_folder(run.checkpoints, 200, lambda folder: (folder / "state").write_text("learned by 200"))
        left[0] -= 1
        link(*arguments)

    monkeypatch.setattr(os, "link", replaced)


@pytest.mark.parametrize("files", [0, 1])
def test_a_checkpoint_that_is_removed_while_it_is_sent(files, store, job, tmp_path, monkeypatch):
    outbox = Outbox(store, RUN, job.path, "one")
    run = begin(job)

    def fill(folder):
        for name in "ab":
            (folder / name).write_text(name)

    write_folder(run.checkpoints, 100, fill)
    run.close()
    checkpoint_replaced_after(monkeypatch, run, files)
    outbox.send()
    assert fetch(store, RUN, tmp_path / "other") == "000002-step-200"
    assert [path.name for path in RunFolder(tmp_path / "other").checkpoint.iterdir()] == ["state"]


def test_a_checkpoint_just_before_its_removal_is_not_taken_for_whole(store, job, tmp_path, monkeypatch):
    """It was listed after some of it was removed."""
    outbox = Outbox(store, RUN, job.path, "one")
    run = begin(job)
    come_to(run, 100)
    run.close()
    copytree = shutil.copytree

    def too_late(source, *arguments, **named):
        if source.name == "000001-step-100":
            (source / "state").unlink()
            (run.checkpoints / "000002-step-200").mkdir()
            (run.checkpoints / "000002-step-200" / "state").write_text("learned by 200")
        return copytree(source, *arguments, **named)

    monkeypatch.setattr(shutil, "copytree", too_late)
    outbox.send()
    assert fetch(store, RUN, tmp_path / "other") == "000002-step-200"


def test_a_disk_without_links(store, job, tmp_path, monkeypatch):
    def refused(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    outbox = Outbox(store, RUN, job.path, "one")
    run = begin(job)
    come_to(run, 100)
    run.close()
    outbox.send()
    assert fetch(store, RUN, tmp_path / "other") == "000001-step-100"
    monkeypatch.setattr(shutil, "copyfile", refused)
    come_to(run, 200)
    with pytest.raises(OSError, match="Operation not permitted"):  # rather than trying for ever
        outbox.send()


def test_a_full_temporary_folder_is_not_the_address_s_fault(store, job, tmp_path, monkeypatch):
    run = begin(job)
    come_to(run, 0)
    run.close()
    Outbox(store, RUN, job.path, "one").send()

    def no_room(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    for method in ("get", "get_file"):
        monkeypatch.setattr(store.files, method, no_room)
    for read in (lambda: mirror(store, tmp_path / "driver"), lambda: fetch(store, RUN, tmp_path / "other")):
        with pytest.raises(MRQError, match=r"the temporary folder /.* is full; make room, or name another in TMPDIR\."):
            read()


def test_addresses():
    assert is_address("s3://bucket/runs")
    assert not is_address("runs/s3")
    with pytest.raises(MRQError, match="nowhere://runs cannot be used: ValueError: Protocol not known: nowhere"):
        store_at("nowhere://runs")
    with pytest.raises(MRQError, match="memory://runs is forgotten when its process ends"), at_hand("memory://runs"):
        pass
