import numpy as np
import pytest

from mrq.environments.workers import EnvironmentFault, Environments, Guarded
from tests.environments_for_tests import Broken, Counting

EVERYONE = np.ones(2, bool)
ACTIONS = np.zeros((2, 1), np.float32)


def environments(*made):
    return Environments([Guarded(e) for e in made], [f"task (seed {i})" for i in range(len(made))])


def test_agents_step_side_by_side():
    both = environments(Counting(lengths=(2,)), Counting(lengths=(3,)))
    assert both.reset(EVERYONE, [0, 0], 0).tolist() == [[0, 0], [0, 0]]
    both.step(EVERYONE, ACTIONS, 0)
    step = both.step(EVERYONE, ACTIONS, 1)
    assert step.next_frames.tolist() == [[0, 2], [0, 2]]
    assert step.rewards.tolist() == [1, 1]
    assert step.terminated.tolist() == [True, False]
    assert both.reset(np.array([True, False]), [0, 0], 2)[0].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("nan observation", "the observation contains NaN"),
        ("infinite observation", "infinities"),
        ("wrong shape", r"shape \(3,\)"),
        ("wrong dtype", "<U1"),
        ("nan reward", "the reward is nan"),
        ("old api", "five values"),
        ("wrong flag", "where booleans were expected"),
        ("raises", r"raised ZeroDivisionError: division by zero \(environments_for_tests.py, line \d+\)"),
    ],
)
def test_faults_name_the_task_and_the_step(fault, words):
    both = environments(Counting(lengths=(100,)), Broken(fault))
    both.environments[1].environment.lengths = (100,)
    both.reset(EVERYONE, [0, 0], 0)
    for step in range(29):
        both.step(EVERYONE, ACTIONS, step)
    with pytest.raises(EnvironmentFault, match=rf"task \(seed 1\) failed at step 29: .*{words}"):
        both.step(EVERYONE, ACTIONS, 29)


def test_an_episode_can_be_played_again():
    import gymnasium as gym

    one = environments(gym.make("Pendulum-v1"))
    actions = np.random.default_rng(0).uniform(-1, 1, (50, 1)).astype(np.float32)
    one.reset(np.ones(1, bool), [7], 0)
    for step, action in enumerate(actions):
        frame = one.step(np.ones(1, bool), action[None], step).next_frames[0]
    np.testing.assert_array_equal(one.replay_episode(0, 7, actions), frame)
    assert not np.array_equal(one.replay_episode(0, 8, actions), frame)
    assert environments(Counting(lengths=(3,))).replay_episode(0, 0, np.zeros((5, 1), np.float32)) is None
