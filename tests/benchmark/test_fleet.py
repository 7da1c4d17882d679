"""A fleet in a process of its own."""

from mrq.benchmark.fleet import train_apart
from mrq.benchmark.matrix import Job, State, state_of
from mrq.benchmark.variants import DEFAULT
from mrq.interface import Agent
from mrq.training.run_folder import create_run_folder
from mrq.training.settings import Settings


def test_a_run_that_cannot_be_gone_on_with_does_not_keep_new_ones_from_starting(tmp_path, small):
    settings = Settings(steps=60, evaluate_every=50, evaluation_episodes=1, workers=0, hyperparameters=small)
    settings = settings.completed(["Pendulum-v1"])
    begun, new = (Job(Agent("Pendulum-v1", seed), DEFAULT, settings, tmp_path) for seed in (0, 1))
    create_run_folder(begun.path, *begun.agent, settings, False, {}, 1).close()
    (begun.path / "checkpoints" / "000001-step-20").mkdir(parents=True)
    failed = train_apart([begun, new], lambda progress: None, lambda: False)
    assert state_of(new) == (State.FINISHED, 60, "")
    assert list(failed) == [begun]
    assert failed[begun].startswith(f"the checkpoint {begun.path / 'checkpoints' / '000001-step-20'} is damaged")
