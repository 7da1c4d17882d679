"""Environments that say which of their actions are allowed, rightly and wrongly."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from mrq import MRQ, MRQError
from mrq.environments.checks import Misbehaviour
from mrq.environments.probing import checked_as_it_is, try_out
from mrq.environments.recipe import Recipe
from mrq.environments.spaces import Translator
from tests.environments_for_tests import Masked, Workshop
from tests.training.populations import checked

BOX = spaces.Box(-1, 1, (2,), np.float32)
ACTION = np.array([0, 0, 1, 0, 1], np.float32)  # allowed at the first two steps of Masked
ONES = [1, 1, 1, 1, 1]


class Scripted(gym.Env):
    """Gives these masks, one after the other; the first with its first observation."""

    observation_space, action_space = BOX, spaces.MultiDiscrete([3, 2])

    def __init__(self, *masks):
        self.masks, self.seen = masks, 0

    def reset(self, *, seed=None, options=None):
        self.seen = 0
        return np.zeros(2, np.float32), {"action_mask": self.masks[0]}

    def step(self, action):
        self.seen += 1
        return np.zeros(2, np.float32), 0.0, False, False, {"action_mask": self.masks[self.seen]}


class Inside(Scripted):
    """Gives them as a part of its observations, as PettingZoo does."""

    observation_space = spaces.Dict(action_mask=spaces.MultiBinary(5), place=BOX)

    def reset(self, *, seed=None, options=None):
        place, info = super().reset()
        return {"place": place, **info}, {}

    def step(self, action):
        place, reward, terminated, truncated, info = super().step(action)
        return {"place": place, **info}, reward, terminated, truncated, {}


def test_masks_are_a_part_of_each_frame():
    environment = checked(Masked(lengths=(2,)))
    assert environment.spec.masked
    frames = [environment.reset(0), *(environment.step(ACTION)[0] for _ in range(2))]
    assert [frame[2:].tolist() for frame in frames] == [[0, 1, 1, 1, 1], [1, 0, 1, 0, 1], ONES]  # at the end, all
    packed = checked(Workshop()).reset(0)
    assert packed[: 4 * 10].view(np.float32)[5:].tolist() == [0, 1, 1, 1, 1]  # after two numbers and three symbols


def test_masks_inside_of_observations_are_used_and_seen():
    environment = checked(Inside(np.array([1, 0, 1, 1, 1]), np.array([1, 1, 0, 0, 1])))
    assert environment.reset(0).tolist() == [1, 0, 1, 1, 1, 0, 0, 1, 0, 1, 1, 1]
    assert environment.step(ACTION)[0].tolist() == [1, 1, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1]


def test_a_mask_inside_of_an_observation_is_found_when_none_is_given():
    translator = Translator(Inside.observation_space, Inside.action_space, masked=True)
    observation = {"action_mask": np.array([1, 0, 1, 1, 1], np.int8), "place": np.zeros(2, np.float32)}
    frames, batched = translator.frames(observation)
    assert not batched
    assert frames[0, 7:].tolist() == [1, 0, 1, 1, 1]
    batch = {name: np.stack([value, value]) for name, value in observation.items()}
    batch["action_mask"][1] = [0, 1, 1, 0, 1]
    frames, batched = translator.frames(batch)
    assert batched
    assert frames[:, 7:].tolist() == [[1, 0, 1, 1, 1], [0, 1, 1, 0, 1]]
    frames, _ = translator.frames(batch, masks=np.array([[0, 0, 1, 0, 1], ONES]))
    assert frames[:, 7:].tolist() == [[0, 0, 1, 0, 1], ONES]


def test_a_step_without_a_mask_allows_all():
    environment = checked(Scripted([0, 1, 1, 1, 0], None, [1, 0, 0, 1, 1]))
    assert environment.reset(0)[2:].tolist() == [0, 1, 1, 1, 0]
    assert [environment.step(ACTION)[0][2:].tolist() for _ in range(2)] == [ONES, [1, 0, 0, 1, 1]]


@pytest.mark.parametrize("mask", [[1] * 4, [1] * 6, "no", [1, 1, 2, 1, 1], np.full(5, np.nan), [[1], [1, 1]], 7])
def test_wrong_masks_are_refused_at_any_step(mask):
    environment = checked(Scripted(ONES, ONES, mask))
    environment.reset(0)
    environment.step(ACTION)
    with pytest.raises(Misbehaviour, match=r"the action mask .* (does not fit|other values than 0 and 1)"):
        environment.step(ACTION)
    with pytest.raises(MRQError, match="the environment of x does not work: the action mask"):
        checked_as_it_is(Scripted(mask), Recipe("x"))


@pytest.mark.parametrize(("mask", "said"), [([0] * 5, 1), ([1, 1, 0, 0, 0], 1), ([1, 0, 0, 0, 1], 0)])
def test_a_first_mask_that_allows_nothing_is_said(mask, said, capsys):
    line = "its first action mask allows nothing, so all is allowed; a 1 stands for what is allowed"
    assert try_out(Scripted(mask, *[ONES] * 20), Recipe("x")).remarks.count(line) == said
    MRQ(Scripted(mask))
    assert capsys.readouterr().out.count(f"Scripted: {line}\n") == said


def test_masks_that_begin_later_are_refused_before_training_begins():
    late = Scripted(None, None, *[ONES] * 20)
    with pytest.raises(MRQError, match="it gives an action mask that it did not give when it was first reset"):
        try_out(late, Recipe("x"))


@pytest.mark.parametrize("space", [BOX, spaces.MultiBinary(2), spaces.Dict(a=spaces.Discrete(2), b=BOX)])
def test_masks_of_other_actions_are_not_used(space):
    environment = Scripted([0, 1], *[[0, 1]] * 20)
    environment.action_space = space
    assert not try_out(environment, Recipe("x")).spec.masked
