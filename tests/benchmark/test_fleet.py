"""A fleet in a process of its own."""

from mrq.benchmark.fleet import train_apart
from mrq.benchmark.matrix import Job, State, state_of
from mrq.benchmark.variants import DEFAULT
from mrq.interface import Agent
from mrq.training.run_folder import RunFolder, create_run_folder
from mrq.training.runs import resume
from mrq.training.settings import Settings


def fleet_of(seeds, folder, small, steps=60):
    settings = Settings(steps=steps, evaluate_every=50, evaluation_episodes=1, workers=0, hyperparameters=small)
    settings = settings.completed(["Pendulum-v1"])
    return [Job(Agent("Pendulum-v1", seed), DEFAULT, settings, folder) for seed in range(seeds)]


def test_a_run_that_cannot_be_gone_on_with_does_not_keep_new_ones_from_starting(tmp_path, small):
    begun, new = fleet_of(2, tmp_path, small)
    create_run_folder(begun.path, *begun.agent, begun.settings, False, {}, 1).close()
    (begun.path / "checkpoints" / "000001-step-20").mkdir(parents=True)
    failed = train_apart([begun, new], lambda progress: None, lambda: False)
    assert state_of(new) == (State.FINISHED, 60, "")
    assert list(failed) == [begun]
    assert failed[begun].startswith(f"the checkpoint {begun.path / 'checkpoints' / '000001-step-20'} is damaged")


def test_a_damaged_checkpoint_keeps_no_other_run_from_going_on(tmp_path, small):
    assert train_apart(fleet_of(3, tmp_path, small), lambda progress: None, lambda: False) == {}
    jobs = fleet_of(3, tmp_path, small, steps=70)
    resume([jobs[2].path], 65, lambda line: None)  # the others go on with it, but not together
    (checkpoint,) = (jobs[1].path / "checkpoints").iterdir()
    array = next(checkpoint.glob("*.npy"))
    array.write_bytes(array.read_bytes()[:-8])
    failed = train_apart(jobs, lambda progress: None, lambda: False)
    assert [state_of(job)[:2] for job in jobs] == [
        (State.FINISHED, 70),
        (State.UNFINISHED, 60),
        (State.FINISHED, 70),
    ]
    assert list(failed) == [jobs[1]]
    assert failed[jobs[1]].startswith(f"the checkpoint {checkpoint} is damaged")


def test_a_locked_run_keeps_no_other_from_going_on(tmp_path, small):
    assert train_apart(fleet_of(2, tmp_path, small), lambda progress: None, lambda: False) == {}
    jobs = fleet_of(2, tmp_path, small, steps=70)
    held = RunFolder(jobs[0].path)
    held.lock()
    failed = train_apart(jobs, lambda progress: None, lambda: False)
    held.close()
    assert state_of(jobs[1])[:2] == (State.FINISHED, 70)
    assert (list(failed), "another process is training" in failed[jobs[0]]) == ([jobs[0]], True)
