"""Fleets train in processes of their own."""

import pytest

from mrq.benchmark.fleet import train_in_child
from mrq.benchmark.matrix import Job, RunState, state_of
from mrq.interface import Identity
from mrq.training.listeners.listener import Listener
from mrq.training.run_creation import create_run_folder
from mrq.training.run_folder import RunFolder
from mrq.training.runs import resume
from mrq.training.settings import Settings


@pytest.fixture(autouse=True)
def _threads(monkeypatch):
    """Makes fleets use one thread, because tests run side by side."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def fleet_of(seeds, folder, small, steps=60):
    settings = Settings(steps=steps, evaluate_every=50, evaluation_episodes=1, workers=0, hyperparameters=small)
    settings = settings.completed(["Pendulum-v1"])
    return [Job(Identity("Pendulum-v1", seed), settings.algorithm.title, settings, folder) for seed in range(seeds)]


@pytest.mark.slow
def test_a_run_that_cannot_be_resumed_does_not_stop_new_runs(tmp_path, small):
    begun, new = fleet_of(2, tmp_path, small)
    create_run_folder(begun.path, begun.identity, begun.settings, False, {}, 1).close()
    (begun.path / "checkpoints" / "000001-step-20").mkdir(parents=True)
    failed = train_in_child([begun, new], lambda progress: None, lambda: False)
    assert state_of(new) == (RunState.FINISHED, 60, "")
    assert list(failed) == [begun]
    assert failed[begun].startswith(f"the checkpoint {begun.path / 'checkpoints' / '000001-step-20'} is damaged")


@pytest.mark.slow
def test_a_damaged_checkpoint_does_not_stop_other_runs(tmp_path, small):
    assert train_in_child(fleet_of(3, tmp_path, small), lambda progress: None, lambda: False) == {}
    jobs = fleet_of(3, tmp_path, small, steps=70)
    resume([jobs[2].path], 65, Listener())  # so it cannot train together with the others
    (checkpoint,) = (jobs[1].path / "checkpoints").iterdir()
    array = next(checkpoint.glob("*.npy"))
    array.write_bytes(array.read_bytes()[:-8])
    failed = train_in_child(jobs, lambda progress: None, lambda: False)
    assert [state_of(job)[:2] for job in jobs] == [
        (RunState.FINISHED, 70),
        (RunState.UNFINISHED, 60),
        (RunState.FINISHED, 70),
    ]
    assert list(failed) == [jobs[1]]
    assert failed[jobs[1]].startswith(f"the checkpoint {checkpoint} is damaged")


@pytest.mark.slow
def test_a_locked_run_does_not_stop_other_runs(tmp_path, small):
    assert train_in_child(fleet_of(2, tmp_path, small), lambda progress: None, lambda: False) == {}
    jobs = fleet_of(2, tmp_path, small, steps=70)
    held = RunFolder(jobs[0].path)
    held.lock()
    failed = train_in_child(jobs, lambda progress: None, lambda: False)
    held.close()
    assert state_of(jobs[1])[:2] == (RunState.FINISHED, 70)
    assert (list(failed), "another process is training" in failed[jobs[0]]) == ([jobs[0]], True)
