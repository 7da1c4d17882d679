"""The paper's 118 tasks: all exist, have the stated sizes and their suite's protocol, and can be played."""

from collections import Counter

import gymnasium as gym
import numpy as np
import pytest

from mrq.environments.making import make_environment
from mrq.environments.spaces import Translator
from mrq.environments.tasks import PROTOCOLS, paper_tasks, protocol_of, suite_of


def test_there_are_118():
    tasks = paper_tasks()
    assert len({task.name for task in tasks}) == 118
    assert Counter(task.suite for task in tasks) == {"gym": 5, "dmc": 28, "dmc-visual": 28, "atari": 57}


def test_protocols():
    assert {suite: protocol[:2] for suite, protocol in PROTOCOLS.items()} == {
        "gym": (1_000_000, 5_000),
        "dmc": (500_000, 5_000),
        "dmc-visual": (500_000, 5_000),
        "atari": (2_500_000, 100_000),
    }
    assert suite_of("dmc-visual/walker-walk") == "dmc-visual"
    for name in ("HalfCheetah-v4", "gym/HalfCheetah-v4", "ALE/Pong-v5", "my_module:make"):
        assert protocol_of(name) == PROTOCOLS["gym"]


@pytest.mark.parametrize("task", paper_tasks(), ids=lambda task: task.name)
def test_every_task_can_be_made_and_played(task, request):
    if task.suite == "dmc-visual":
        request.getfixturevalue("renderer")
    environment = make_environment(task.name)
    shape = tuple(int(size) for size in task.observation.split("x"))
    first, _ = environment.reset(seed=1)
    seen, reward, terminated, truncated, _ = environment.step(environment.action_space.sample())
    assert first.shape == seen.shape == environment.observation_space.shape == shape
    assert first.dtype == (np.uint8 if len(shape) > 1 else environment.observation_space.dtype)
    assert np.isfinite(reward)
    assert (terminated, truncated) == (False, False)
    actions = environment.action_space
    assert task.actions == (actions.n if isinstance(actions, gym.spaces.Discrete) else actions.shape[0])
    environment.close()


def test_humanoids_actions_span_its_own_bounds():
    environment = make_environment("gym/Humanoid-v4")
    translator = Translator(environment.observation_space, environment.action_space)
    np.testing.assert_allclose(translator.action(np.ones(17, np.float32)), 0.4)
    np.testing.assert_allclose(translator.action(np.full(17, -0.5, np.float32)), -0.2)


@pytest.mark.filterwarnings("ignore:.*out of date")
def test_gym_is_unprocessed():
    environment, plain = make_environment("gym/HalfCheetah-v4"), gym.make("HalfCheetah-v4")
    ours, theirs = environment.reset(seed=3)[0], plain.reset(seed=3)[0]
    rng = np.random.default_rng(0)
    for _ in range(20):
        np.testing.assert_array_equal(ours, theirs)
        action = rng.uniform(-1, 1, 6)
        (ours, reward, *_), (theirs, plain_reward, *_) = environment.step(action), plain.step(action)
        assert reward == plain_reward
