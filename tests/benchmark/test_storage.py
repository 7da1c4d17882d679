"""Runs at an address: nothing is lost, whenever a worker stops."""

import errno
import os
import re
import shutil
import tempfile
import threading
import uuid
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mrq import MRQError
from mrq.algorithms.registry import default_algorithm
from mrq.benchmark import storage
from mrq.benchmark.matrix import RunState, jobs, state_of
from mrq.benchmark.storage import Outbox, TakenOver, at_address, at_hand, fetch, is_address, mirror, store_at
from mrq.training.checkpoint import latest_checkpoint, read_arrays, step_of, write_checkpoint
from mrq.training.evaluation import Evaluation
from mrq.training.listeners.evaluations_file import EvaluationsFile
from mrq.training.listeners.tensorboard import TensorBoard
from mrq.training.run_creation import create_run_folder
from mrq.training.run_folder import RunFolder
from mrq.training.settings import Settings
from mrq.training.tracking_file import Tracked, read_tracking, write_tracking
from tests.command_line import steps_in

RUN, OTHER = "gym/Hopper-v4/seed-0", "gym/Hopper-v4/seed-1"


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path):
    name = uuid.uuid4().hex
    return store_at(f"memory://{name}" if request.param == "memory" else f"file://{tmp_path / name}")


@pytest.fixture
def job(tmp_path, small):
    settings = Settings(steps=300, evaluate_every=100, hyperparameters=small)
    return jobs(["gym/Hopper-v4"], [default_algorithm()], [], [0], settings, tmp_path / "worker")[0]


@pytest.fixture(autouse=True)
def _temporary(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))


class Unreachable(Exception):
    """What the file systems of these tests raise."""


class Frail:
    """A file system that fails after `left` changes, and leaves half of the file it was writing."""

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
                raise Unreachable
            return method(*arguments, **named)

        return counted


def begin(job):
    """Creates the run folder of a job."""
    return create_run_folder(job.path, job.identity, job.settings, False, {}, 1)


def reach(run, step):
    """Records an evaluation and a checkpoint."""
    evaluation = Evaluation([float(step), step + 1.0], [step, step])
    for listener in (EvaluationsFile([run]), TensorBoard([run])):
        listener.evaluation(step, {0: evaluation}, np.array([step]))
        listener.training_ends(step)
    learn(run, step)


def learn(run, step):
    """Writes a checkpoint."""
    return write_checkpoint(run.checkpoints, {}, {"state": np.array(step)}, {"steps": step})


def learned(folder):
    """Returns what the latest checkpoint in a run folder holds."""
    checkpoint = latest_checkpoint(folder / "checkpoints")
    assert step_of(checkpoint) == read_arrays(checkpoint)["state"]
    return step_of(checkpoint)


def test_a_run_is_fetched_and_mirrored_as_it_was_sent(store, job, tmp_path):
    outbox = Outbox(store, RUN, job.path, "one")
    run = begin(job)
    for step in (0, 100, 300):
        reach(run, step)
        outbox.send()
    write_tracking(run.path, "wandb", Tracked("abc", {"evaluation": 300}))
    run.close()
    outbox.send()
    assert fetch(store, RUN, tmp_path / "other") == "000003-step-300"
    assert read_tracking(tmp_path / "other") == {"wandb": Tracked("abc", {"evaluation": 300})}
    other = RunFolder(tmp_path / "other")
    assert other.evaluations() == run.evaluations()
    assert learned(other.path) == 300
    assert {path.split("/")[1] for path in store.listed(RUN) if path.startswith("checkpoints")} == {"000003-step-300"}
    assert any(path.startswith("tensorboard/") for path in store.listed(RUN))
    mirror(store, tmp_path / "driver")
    (seen,) = jobs(["gym/Hopper-v4"], [default_algorithm()], [], [0], job.settings, tmp_path / "driver")
    assert state_of(seen) == (RunState.FINISHED, 300, "")


def test_a_checkpoint_may_be_replaced_while_a_run_is_mirrored(store, job, tmp_path, monkeypatch):
    outbox = Outbox(store, RUN, job.path, "one")
    run = begin(job)
    reach(run, 100)
    outbox.send()
    listed = store.files.find(store.root)
    reach(run, 300)
    outbox.send()
    run.close()
    monkeypatch.setattr(store.files, "find", lambda _: listed)
    mirror(store, tmp_path / "driver")
    (path,) = (path.parent for path in (tmp_path / "driver").rglob("run.json"))
    assert RunFolder(path).evaluations() == run.evaluations()


def test_nothing_is_copied_out_of_the_folder_of_a_mirror(tmp_path):
    store = store_at(f"memory://{uuid.uuid4().hex}")
    for place in ("../outside/run.json", "inside/../../outside/evaluations.csv", "inside/run.json"):
        store.files.pipe_file(store.place(place), b"content")
    store.files.pipe_file(store.place("../outside/checkpoints/000001-step-1/checkpoint.json"), b"content")
    store.files.pipe_file(store.place("../outside/checkpoints/000001-step-1/", storage.SENT), b"")
    mirror(store, tmp_path / "mirror")
    files = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()]
    assert files == ["mirror/inside/run.json"]


@pytest.mark.parametrize("begun", [True, False])  # by an earlier worker
def test_a_worker_may_stop_at_any_change(begun, store, job, tmp_path):
    places, stopped = [], True
    while stopped:
        changes = len(places)  # after which the worker stops
        there, folder = store_at(f"{store.address}/{changes}"), tmp_path / str(changes)
        if begun:
            first = replace(job, root=folder / "first")
            outbox = Outbox(there, RUN, first.path, "first")
            run = begin(first)
            reach(run, 0)
            run.close()
            outbox.send()
        frail = there._replace(files=Frail(there.files))
        worker = replace(job, root=folder / "worker")
        outbox = Outbox(frail, RUN, worker.path, "worker")
        run = RunFolder(worker.path) if begun else begin(worker)
        reach(run, 100)
        run.close()
        frail.files.left = changes
        stopped = False
        try:
            outbox.send()
        except Unreachable:
            stopped = True
        next_one = folder / "next"
        fetched = fetch(there, RUN, next_one)
        if fetched is not None:
            step = learned(next_one)
            evaluated = [0, 100] if begun else [100]
            assert [at for at in steps_in(next_one) if at <= step] == [at for at in evaluated if at <= step]
        mirror(there, folder / "driver")
        state, step, why = state_of(replace(job, root=folder / "driver"))
        assert (state.due, why) == (True, "")  # the run can be resumed, whatever was sent of it
        assert step == (0 if fetched is None else learned(next_one))
        places.append((-1 if fetched is None else learned(next_one), state))
    steps = [step for step, _ in places]
    assert steps == sorted(steps)
    assert steps.count(0 if begun else -1) > 8  # stops at files before the checkpoint, and at its own
    assert steps[-1] == 100
    assert begun or {state for _, state in places} == {RunState.TO_DO, RunState.UNFINISHED}
    assert not begun or steps.count(100) > 1  # stops while the older checkpoint is removed, which happens last


def test_a_checkpoint_may_have_folders(store, job, tmp_path):
    outbox = Outbox(store, RUN, job.path, "one")
    run = begin(job)
    deep = learn(run, 200) / "replay" / "deep"
    deep.mkdir(parents=True)
    (deep / "sent").write_text("of the checkpoint")
    run.close()
    outbox.send()
    assert fetch(store, RUN, tmp_path / "other") == "000001-step-200"
    assert (tmp_path / "other" / deep.relative_to(run.path) / "sent").read_text() == "of the checkpoint"
    mirror(store, tmp_path / "driver")
    assert RunFolder(tmp_path / "driver" / RUN).step == 200


def test_a_run_without_a_checkpoint_starts_again(store, job, tmp_path):
    begin(job).close()
    Outbox(store, RUN, job.path, "one").send()
    assert fetch(store, RUN, tmp_path / "other") is None
    assert not (tmp_path / "other").exists()
    mirror(store, tmp_path / "driver")
    assert RunFolder(tmp_path / "driver" / RUN).step == 0


def test_only_one_worker_sends_a_run(store, job, tmp_path):
    first = Outbox(store, RUN, job.path, "first")
    run = begin(job)
    reach(run, 0)
    first.send()
    second = Outbox(store, RUN, tmp_path / "second", "second")
    reach(run, 100)
    run.close()
    with pytest.raises(TakenOver, match=r"another worker has taken over the run in .*seed-0"):
        first.send()
    assert {path for path in store.listed(RUN) if "step-100" in path} == set()
    reach(RunFolder(tmp_path / "second"), 100)
    second.send()
    assert fetch(store, RUN, tmp_path / "third") == "000002-step-100"


def test_the_last_changes_are_sent_at_the_end(store, job, tmp_path):
    with at_address(store.address, [RUN], "one") as (folder, _):
        run = begin(replace(job, root=folder))
        reach(run, 0)
        run.close()
    with at_address(store.address, [RUN], "two") as (folder, lost):
        run = RunFolder(folder / RUN)
        assert steps_in(run.path) == [0]
        reach(run, 100)
        run.close()
    assert (lost, folder.exists()) == ({}, False)
    assert fetch(store, RUN, tmp_path / "other") == "000002-step-100"
    assert steps_in(tmp_path / "other") == [0, 100]


def two_in_training(job, folder):
    """Returns the runs of a fleet of two, each with a checkpoint."""
    made = []
    for seed in (0, 1):
        run = begin(replace(job, root=folder, identity=job.identity._replace(seed=seed)))
        reach(run, 0)
        made.append(run)
    return made


def test_a_run_that_is_taken_over_does_not_stop_the_others_from_being_sent(store, job, tmp_path):
    with at_address(store.address, [RUN, OTHER], "one") as (folder, lost):
        Outbox(store, RUN, tmp_path / "second", "second")
        for run in two_in_training(job, folder):
            run.close()
    assert list(lost) == [RUN]
    assert lost[RUN] == f"another worker has taken over the run in {store.address}/{RUN}."
    assert not folder.exists()
    assert fetch(store, RUN, tmp_path / "third") is None
    assert fetch(store, OTHER, tmp_path / "other") == "000001-step-0"


def test_changes_that_cannot_be_sent_are_retried_and_then_kept(store, job, tmp_path, monkeypatch, failing):
    """One of two runs cannot be sent; the other one is."""
    monkeypatch.setattr(storage, "SEND_SECONDS", 0.01)
    monkeypatch.setattr(storage, "LAST_SEND_SECONDS", 0.2)
    with at_address(store.address, [RUN, OTHER], "one") as (folder, lost):
        failing.add(RUN)
        for run in two_in_training(job, folder):
            run.close()
    assert list(lost) == [RUN]
    sentence = (
        rf"the last changes could not be sent to {store.address}: Unreachable: of {RUN}; they are kept on .* in (.*)\."
    )
    kept = Path(re.fullmatch(sentence, lost[RUN])[1])
    assert (RunFolder(kept).step, steps_in(kept)) == (0, [0])
    assert fetch(store, OTHER, tmp_path / "other") == "000001-step-0"
    failing.clear()
    monkeypatch.setattr(storage, "LAST_SEND_SECONDS", 60.0)
    with at_address(store.address, [RUN], "two") as (folder, lost):
        run = begin(replace(job, root=folder))
        reach(run, 100)
        run.close()
        failing.add(RUN)
        threading.Timer(0.2, failing.clear).start()  # the store works again
    assert (lost, folder.exists()) == ({}, False)
    assert fetch(store, RUN, tmp_path / "third") == "000001-step-100"
    assert kept.exists()  # no worker removes it


@pytest.fixture
def failing(monkeypatch):
    """Returns a set; runs in it cannot be sent."""
    runs, send = set(), Outbox.send

    def may_fail(outbox):
        if outbox._run in runs:
            raise Unreachable(f"of {outbox._run}")
        send(outbox)

    monkeypatch.setattr(Outbox, "send", may_fail)
    return runs


def checkpoint_replaced_after(monkeypatch, run, files):
    """Writes the next two checkpoints, which removes this one, after so many of its files were linked."""
    link, left = os.link, [files]

    def replaced(*arguments):
        if left[0] == 0:
            left[0] -= 1
            for step in (150, 200):
                learn(run, step)
        left[0] -= 1
        link(*arguments)

    monkeypatch.setattr(os, "link", replaced)


@pytest.mark.parametrize("files", [0, 1])
def test_a_checkpoint_may_be_removed_while_it_is_copied(files, store, job, tmp_path, monkeypatch):
    outbox = Outbox(store, RUN, job.path, "one")
    run = begin(job)
    learn(run, 100)
    run.close()
    checkpoint_replaced_after(monkeypatch, run, files)
    outbox.send()
    assert fetch(store, RUN, tmp_path / "other") == "000003-step-200"
    assert learned(tmp_path / "other") == 200


def test_a_partly_removed_checkpoint_is_not_sent(store, job, tmp_path, monkeypatch):
    """The checkpoint is listed after some of its files were removed."""
    outbox = Outbox(store, RUN, job.path, "one")
    run = begin(job)
    reach(run, 100)
    run.close()
    copytree = shutil.copytree

    def too_late(source, *arguments, **named):
        if source.name == "000001-step-100":
            (source / "state.npy").unlink()
            learn(run, 200)
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
    reach(run, 100)
    run.close()
    outbox.send()
    assert fetch(store, RUN, tmp_path / "other") == "000001-step-100"
    monkeypatch.setattr(shutil, "copyfile", refused)
    reach(run, 200)
    with pytest.raises(OSError, match="Operation not permitted"):  # it does not retry for ever
        outbox.send()


def test_a_full_temporary_folder_is_named(store, job, tmp_path, monkeypatch):
    run = begin(job)
    reach(run, 0)
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
    assert is_address(str(Path("s3://")))
    assert not is_address("runs/s3")
    with pytest.raises(MRQError, match="nowhere://runs cannot be used: ValueError: Protocol not known: nowhere"):
        store_at("nowhere://runs")
    with pytest.raises(MRQError, match="memory://runs is lost when its process ends"), at_hand("memory://runs"):
        pass
