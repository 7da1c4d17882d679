"""Checks what is said about an environment before training begins."""

import gymnasium as gym
import pytest
from gymnasium.wrappers import ClipReward, TimeLimit

from mrq import MRQ
from mrq.algorithms.registry import algorithm_named
from mrq.environments.making import make_environment
from mrq.environments.options import EnvironmentOptions
from mrq.environments.probing import probe
from mrq.environments.recipe import Recipe
from mrq.environments.remarks import remarks_on
from mrq.interface import Spec
from tests.environments_for_tests import Counting, Target

UNLIMITED = ["it names no limit of steps per episode; if an episode may not end by itself, give --max-episode-steps"]
RAW = "this is the raw game; the paper's protocol is atari/Pong"


class Configured(Target):
    """Names its limit as highway-env does."""

    def __init__(self):
        super().__init__()
        self.config = {"duration": 40}


class Odd(Target):
    """Has attributes that look like a limit, and are none."""

    spec = "tiny"

    @property
    def horizon(self):
        raise RuntimeError("not yet")


@pytest.mark.parametrize(
    ("environment", "remarks"),
    [
        (Target(), UNLIMITED),
        (gym.make("Pendulum-v1").unwrapped, UNLIMITED),
        (gym.make("Pendulum-v1"), []),
        (ClipReward(TimeLimit(Target(), 5), 0, 1), []),
        (Counting(), []),
        (Configured(), []),
        (Odd(), UNLIMITED),
    ],
    ids=["none", "removed", "by id", "under a wrapper", "its own", "in its configuration", "odd"],
)
def test_an_environment_without_a_limit_of_steps_says_so(environment, remarks):
    assert remarks_on(environment) == remarks


def test_the_suites_have_limits():
    assert remarks_on(make_environment("dmc/cartpole-swingup")) == []
    assert remarks_on(make_environment("atari/Pong")) == []


def test_raw_games_name_the_papers_protocol():
    assert remarks_on(make_environment("ALE/Pong-v5")) == [RAW]
    assert remarks_on(make_environment("ale_py:PongNoFrameskip-v4")) == [RAW]
    assert remarks_on(make_environment("ALE/MsPacman-v5"))[0].endswith("atari/MsPacman")


def test_remarks_come_before_training(capsys):
    here = "tests.environments_for_tests:Target"
    recipes = {limit: Recipe(here, EnvironmentOptions(max_episode_steps=limit)) for limit in (None, 5)}
    found = probe(recipes, 60)
    assert found[None].remarks == (*UNLIMITED,)
    assert found[5].remarks == ()
    MRQ(here)
    assert f"{here}: {UNLIMITED[0]}" in capsys.readouterr().out


def test_an_algorithm_that_does_not_obey_masks_says_so():
    masked = Spec(numbers=5, choices=(3,), masked=True)
    assert algorithm_named("mrq").remarks(masked) == []
    assert algorithm_named("dqn").remarks(Spec(numbers=5, choices=(3,))) == []
    assert algorithm_named("ppo").remarks(masked) == [
        "PPO sees the masks of actions as part of the observation, but may take forbidden actions"
    ]
