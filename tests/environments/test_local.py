import re

import gymnasium as gym
import numpy as np
import pytest

from mrq.environments.checked import CheckedEnvironment
from mrq.environments.environments import NO_FAULTS
from mrq.environments.local import LocalEnvironments
from mrq.errors import MRQError
from mrq.interface import Image, Spec, common_spec
from tests.environments_for_tests import Broken, Counting, Pixels, Workshop
from tests.training.populations import checked

EVERYONE = np.ones(2, bool)
ACTIONS = np.zeros((2, 1), np.float32)


def environments(*made):
    names = [f"task (seed {i})" for i in range(len(made))]
    return LocalEnvironments([CheckedEnvironment(environment) for environment in made], names)


def test_agents_step_side_by_side():
    both = environments(Counting(lengths=(2,)), Counting(lengths=(3,)))
    frames, faults = both.reset(EVERYONE, [0, 0], 0)
    assert (frames.tolist(), faults) == ([[0, 0], [0, 0]], NO_FAULTS)
    both.step(EVERYONE, ACTIONS, 0)
    step, faults = both.step(EVERYONE, ACTIONS, 1)
    assert not faults
    assert step.next_frames.tolist() == [[0, 2], [0, 2]]
    assert step.rewards.tolist() == [1, 1]
    assert step.terminated.tolist() == [True, False]
    assert both.reset(np.array([True, False]), [0, 0], 2)[0].tolist() == [[1, 0], [0, 0]]


class Wide(Counting):
    """Observes five numbers and takes three; the reward is the sum of the action."""

    def __init__(self):
        super().__init__(lengths=(100,))
        self.observation_space = gym.spaces.Box(-9, 9, (5,), np.float32)
        self.action_space = gym.spaces.Box(-1, 1, (3,), np.float32)

    def _observation(self):
        return np.arange(1, 6, dtype=np.float32)

    def step(self, action):
        assert action.shape == (3,)
        return self._observation(), float(action.sum()), False, False, {}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda seen: seen.pop("place"), "is not a dict with the keys picture, place, symbol"),
        (lambda seen: seen.update(more=1), "is not a dict with the keys picture, place, symbol"),
        (
            lambda seen: seen.update(picture=seen["picture"] / 255),
            r"the part 'picture' of the observation is float64, but its space is uint8",
        ),
        (
            lambda seen: seen.update(picture=seen["picture"][..., :1]),
            r"the part 'picture' of the observation has shape \(40, 32, 1\)",
        ),
        (lambda seen: seen.update(place=np.array([0, np.nan])), r"the part 'place' of the observation contains NaN"),
        (
            lambda seen: seen.update(symbol=0),
            r"the part 'symbol' of the observation is 0, which is not in Discrete\(3, start=1\)",
        ),
        (lambda seen: seen.update(symbol="a"), r"the part 'symbol' of the observation is 'a', which is not in"),
    ],
)
def test_a_part_that_goes_wrong_during_an_episode_is_named(change, words):
    class Changing(Workshop):
        def _observation(self):
            seen = super()._observation()
            if self.step_count == 2:
                change(seen)
            return seen

    both = LocalEnvironments([checked(Changing()), checked(Workshop())], ["task (seed 0)", "task (seed 1)"])
    both.reset(EVERYONE, [0, 0], 0)
    allowed = np.tile(np.array([0, 0, 1, 0, 1], np.float32), (2, 1))  # at the first two steps
    assert both.step(EVERYONE, allowed, 0)[1] == NO_FAULTS
    step, faults = both.step(EVERYONE, allowed, 1)
    assert list(faults.failed) == [0]
    assert re.fullmatch(rf"the environment of task \(seed 0\) failed at step 1: .*{words}.*\.", faults.failed[0])
    assert step.next_frames[1].any()


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (Spec(numbers=3, choices=(2, 3)), Spec(numbers=3, choices=(2, 4)), "2 and 3 options .* 2 and 4 options"),
        (Spec(numbers=3, choices=(2,)), Spec(numbers=3, choices=(2,), masked=True), "vectors .* masks of actions"),
        (
            Spec(numbers=3, choices=(2,), masked=True),
            Spec(numbers=4, choices=(2,), masked=True),
            "3 numbers .* 4 numbers",
        ),
        (
            Spec(numbers=3, continuous=1, choices=(2,)),
            Spec(numbers=3, continuous=2, choices=(2,)),
            "1 numbers .* 2 num",
        ),
        (
            Spec((Image(1, 84, 84),), 5, choices=(2, 3)),
            Spec((Image(1, 84, 84),), 0, choices=(2, 3), masked=True),  # as many bytes
            "5 numbers .* masks",
        ),
        (Spec((Image(1, 84, 84),), 5), Spec((Image(1, 84, 84),)), "with 5 numbers .* 1x84x84 images as"),
        (Spec((Image(1, 84, 84),) * 2), Spec((Image(1, 84, 84),)), "1x84x84 and 1x84x84 images"),
        (Spec(numbers=3, history=2), Spec(numbers=3), "stacks of 2 vectors .* vectors"),
    ],
)
def test_agents_whose_parts_differ_cannot_train_together(one, other, words):
    with pytest.raises(MRQError, match=rf"a has .*{words}.*; train them in separate calls"):
        common_spec([one, other], ["a", "b"])


def test_frames_are_padded_and_actions_cut_to_each_environments_own_size():
    both = environments(Counting(), Wide())
    assert [spec.action_size for spec in both.specs] == [1, 3]
    assert both.spec == Spec(numbers=5, continuous=3)
    assert both.reset(EVERYONE, [0, 0], 0)[0].tolist() == [[0, 0, 0, 0, 0], [1, 2, 3, 4, 5]]
    step, _ = both.step(EVERYONE, np.full((2, 3), 0.5, np.float32), 0)
    assert step.next_frames.tolist() == [[0, 1, 0, 0, 0], [1, 2, 3, 4, 5]]
    assert step.rewards.tolist() == [0, 1.5]
    assert both.replay_episode(0, 0, np.zeros((2, 3), np.float32))[0].tolist() == [1, 2, 0, 0, 0]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("nan observation", "the observation contains NaN"),
        ("infinite observation", "numbers that are infinite"),
        ("wrong shape", r"shape \(3,\)"),
        ("wrong dtype", "<U1"),
        ("nan reward", "the reward is nan"),
        ("old api", "five values"),
        ("wrong flag", "terminated is 1 and truncated is False; both must be booleans"),
        ("ragged reward", "the reward cannot be read as numbers .*inhomogeneous"),
        ("observation that is lost", r"the observation cannot be read as numbers \(RuntimeError: device lost\)"),
        ("reward that is lost", r"the reward cannot be read as numbers \(RuntimeError: device lost\)"),
        ("flag without words", "raised RuntimeError: no words"),
        ("raises what is no Exception", "raised Beyond: reach"),
        ("raises", r"raised ZeroDivisionError: division by zero \(environments_for_tests.py, line \d+\)"),
    ],
)
def test_a_fault_names_the_task_and_the_step_and_leaves_the_others_going(fault, words):
    both = environments(Counting(lengths=(100,)), Broken(fault))
    both.reset(EVERYONE, [0, 0], 0)
    for step in range(29):
        _, faults = both.step(EVERYONE, ACTIONS, step)
        assert not faults
    step, faults = both.step(EVERYONE, ACTIONS, 29)
    assert list(faults.failed) == [1]
    assert not faults.restarted
    with pytest.raises(MRQError, match=rf"the environment of task \(seed 1\) failed at step 29: .*{words}"):
        raise MRQError(faults.failed[1])
    assert step.next_frames.tolist() == [[0, 30], [0, 0]]
    assert step.rewards.tolist() == [29, 0]
    step, faults = both.step(np.array([True, False]), ACTIONS, 30)
    assert step.next_frames.tolist() == [[0, 31], [0, 0]]
    assert faults == NO_FAULTS
    frames, faults = both.reset(EVERYONE, [0, 0], 31)  # a user may have fixed it: it is called again
    assert frames.tolist() == [[1, 0], [1, 0]]
    assert faults == NO_FAULTS


def test_an_episode_can_be_replayed():
    one = environments(gym.make("Pendulum-v1"))
    actions = np.random.default_rng(0).uniform(-1, 1, (50, 1)).astype(np.float32)
    one.reset(np.ones(1, bool), [7], 0)
    for step, action in enumerate(actions):
        frame = one.step(np.ones(1, bool), action[None], step)[0].next_frames[0]
    replayed, faults = one.replay_episode(0, 7, actions)
    np.testing.assert_array_equal(replayed, frame)
    assert not faults
    assert not np.array_equal(one.replay_episode(0, 8, actions)[0], frame)
    short = environments(Counting(lengths=(3,)))
    assert short.replay_episode(0, 0, np.zeros((5, 1), np.float32)) == (None, NO_FAULTS)


def test_a_fault_while_an_episode_is_replayed_does_not_fail_the_environment():
    one = environments(Broken("raises"))
    assert one.replay_episode(0, 0, np.zeros((7, 1), np.float32)) == (None, NO_FAULTS)  # its episode ends
    one.environments[0].environment.total = 29
    assert one.replay_episode(0, 0, np.zeros((1, 1), np.float32)) == (None, NO_FAULTS)
    frames, faults = one.reset(np.ones(1, bool), [0], 0)
    assert (frames.tolist(), faults) == ([[2, 0]], NO_FAULTS)


def test_environments_of_different_kinds_are_refused():
    with pytest.raises(MRQError, match=r"0\) has continuous actions and .*1\) has discrete actions; .* separate calls"):
        environments(gym.make("Pendulum-v1"), gym.make("CartPole-v1"))
    with pytest.raises(MRQError, match=r"vectors as observations and .* stacks of 4 1x84x84 images"):
        environments(gym.make("CartPole-v1"), Pixels())
    grey, colour = (
        Spec((Image(1, 84, 84),), history=4, choices=(6,)),
        Spec((Image(3, 84, 84),), history=3, choices=(6,)),
    )
    with pytest.raises(MRQError, match=r"stacks of 4 1x84x84 images .* stacks of 3 3x84x84 images"):
        common_spec([grey, colour], ["Pong", "Doom"])
    assert (
        common_spec([grey, Spec((Image(1, 84, 84),), history=4, choices=(18,))], ["Pong", "Tennis"]).action_size == 18
    )


def test_ctrl_c_in_an_environment_is_not_a_fault():
    both = environments(Counting(), Interrupted())
    with pytest.raises(KeyboardInterrupt):
        both.reset(EVERYONE, [0, 0], 0)


class Interrupted(Counting):
    def reset(self, **_):
        raise KeyboardInterrupt


@pytest.mark.parametrize("error", [AttributeError, RuntimeError])
def test_an_environment_without_spaces_is_refused(error):
    class Spaceless(Counting):
        @property
        def observation_space(self):
            raise error("no map")

        @observation_space.setter
        def observation_space(self, _):
            pass

    with pytest.raises(MRQError, match=rf"Spaceless.* has no observation_space .*\({error.__name__}: no map\)"):
        CheckedEnvironment(Spaceless())
