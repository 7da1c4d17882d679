"""Checks that an environment is made again as it was, or not at all."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import (
    ClipReward,
    MaxAndSkipObservation,
    NormalizeObservation,
    RecordVideo,
    TimeLimit,
    TransformReward,
)

from mrq import MRQError, make_environment
from mrq.environments.contacts import EarlierMargins
from mrq.environments.options import EnvironmentOptions
from mrq.environments.recipe import Recipe, options_of
from mrq.environments.sources import maker_of, options_from
from tests.environments_for_tests import Counting

OBJECT = EnvironmentOptions(given_as_object=True)


def test_arguments_of_evaluations_do_not_hide_those_of_training():
    options = EnvironmentOptions(env_kwargs=("xml_file=/tmp/evil.xml",), eval_env_kwargs=("xml_file=1",))
    assert Recipe("HalfCheetah-v4", options).code == "the argument '/tmp/evil.xml'"


class Doubled(gym.Wrapper):
    """A wrapper that does not record its arguments."""


class Plus(gym.RewardWrapper, gym.utils.RecordConstructorArgs):
    """A user's wrapper that records its argument."""

    def __init__(self, env, more=0.0):
        gym.utils.RecordConstructorArgs.__init__(self, more=more)
        gym.RewardWrapper.__init__(self, env)
        self.more = more

    def reward(self, reward):
        return reward + self.more


def plus_one(reward):
    return reward + 1


# 30 of its steps are 120 of the task's.
LATE_LIMIT = TimeLimit(MaxAndSkipObservation(gym.make("Pendulum-v1"), 4), 30)


def length(environment):
    """Returns how many steps an episode lasts."""
    environment.reset(seed=0)
    for step in range(1, 1_000):
        if any(environment.step(environment.action_space.sample())[2:4]):
            return step
    return None


def again(environment):
    return Recipe(environment.spec.id, options_of(environment)).make()


def test_keyword_arguments_are_kept():
    slippery, dry = (gym.make("FrozenLake-v1", is_slippery=value, map_name="8x8") for value in (True, False))
    for environment in (slippery, dry):
        made = again(environment)
        assert made.observation_space.n == 64
        assert made.unwrapped.P == environment.unwrapped.P
    assert slippery.unwrapped.P != dry.unwrapped.P
    assert options_of(gym.make("FrozenLake-v1")) == EnvironmentOptions()


def test_wrappers_and_limits_are_kept():
    environment = Plus(ClipReward(TimeLimit(gym.make("Pendulum-v1"), 30), -1, 0), more=0.5)
    options = options_of(environment)
    assert options.max_episode_steps == 30
    assert options.wrapper[1] == f"{__name__}:Plus:{{'more': 0.5}}"
    made = again(environment)
    assert length(made) == 30
    for one in (made, environment):
        one.reset(seed=3)
    action = np.array([2.0], np.float32)
    assert made.step(action)[1] == environment.step(action)[1] == -0.5


@pytest.mark.parametrize("limit", [30, 500])
def test_the_smaller_of_two_limits_is_kept(limit):
    environment = TimeLimit(gym.make("Pendulum-v1"), limit)
    assert length(again(environment)) == length(environment) == min(limit, 200)


def test_wrappers_of_a_registration_are_not_added_again():
    gym.register(
        "Skipping-v0",
        "gymnasium.envs.classic_control.pendulum:PendulumEnv",
        max_episode_steps=200,
        additional_wrappers=(MaxAndSkipObservation.wrapper_spec(skip=4),),
    )
    try:
        environment = Plus(gym.make("Skipping-v0"), more=0.5)
        assert options_of(environment).wrapper == (f"{__name__}:Plus:{{'more': 0.5}}",)
        assert length(again(environment)) == length(environment) == 50
        assert options_of(environment.unwrapped) == OBJECT
        assert options_of(TimeLimit(environment.unwrapped, 200)) == OBJECT  # without the wrapper that belongs to the id
    finally:
        del gym.registry["Skipping-v0"]


def test_more_environments_are_made_with_their_wrappers_in_the_same_order_or_not_at_all():
    limited = TimeLimit(gym.make("Pendulum-v1"), 500)
    assert length(maker_of(limited, "evaluations")()) == 200
    doubled = TransformReward(gym.make("Pendulum-v1"), plus_one)  # can be made again in this process
    assert isinstance(maker_of(doubled, "evaluations")(), TransformReward)
    with pytest.raises(MRQError, match="evaluations need more: give MRQ an id, or a function"):
        maker_of(LATE_LIMIT, "evaluations need more")


def test_environments_of_a_function_that_differ_cannot_be_made_again():
    dry, slippery = (gym.make("FrozenLake-v1", is_slippery=value) for value in (False, True))
    made = options_from(lambda: dry, [dry, dry], "FrozenLake-v1")
    assert made == EnvironmentOptions(env_kwargs=("is_slippery=False",))
    assert options_from(lambda: dry, [dry, slippery], "FrozenLake-v1") == OBJECT


@pytest.mark.parametrize(
    "environment",
    [
        Counting(),
        Doubled(gym.make("Pendulum-v1")),
        TransformReward(gym.make("Pendulum-v1"), plus_one),
        NormalizeObservation(gym.make("Pendulum-v1")),
        gym.make("FrozenLake-v1", desc=np.array([["S", "G"]])),
        gym.make("Pendulum-v1").unwrapped,
        LATE_LIMIT,
    ],
    ids=["no id", "no arguments", "a function", "statistics", "an array", "no limit", "a limit around a wrapper"],
)
def test_what_cannot_be_made_again_is_known(environment):
    assert options_of(environment) == OBJECT


def test_the_papers_contacts_are_those_of_the_environment_that_was_given():
    ours, theirs = make_environment("Hopper-v4"), gym.make("Hopper-v4")
    assert (options_of(ours).contacts, options_of(theirs).contacts) == ("paper", "installed")
    assert options_of(gym.make("Pendulum-v1")).contacts == "paper"
    for environment in (ours, theirs):
        margins = environment.unwrapped.model.geom_margin
        assert (again(environment).unwrapped.model.geom_margin == margins).all()
    assert isinstance(Recipe("Hopper-v4").make(), EarlierMargins)


def test_options_apply_to_factories_and_suites():
    kwargs = ("lengths=(50,)",)
    here = "tests.environments_for_tests:Counting"
    assert length(Recipe(here, EnvironmentOptions(env_kwargs=kwargs)).make()) == 50
    limited = EnvironmentOptions(env_kwargs=kwargs, eval_env_kwargs=("lengths=(20,)",), max_episode_steps=30)
    assert length(Recipe(here, limited).make()) == 30
    assert length(Recipe(here, limited, in_evaluations=True).make()) == 20
    assert length(Recipe("Pendulum-v1", EnvironmentOptions(max_episode_steps=300)).make()) == 300


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"env_kwargs": ("colour=1",)}, "'Pendulum-v1' with colour=1 could not be made: TypeError: .*colour"),
        ({"env_kwargs": ("g=0", "xml=a")}, "'Pendulum-v1' with g=0, xml='a' could not be made"),
        ({"wrapper": ("gymnasium.wrappers:Nothing",)}, "has no wrapper 'Nothing'"),
        ({"wrapper": ("no_such_module:Wrapper",)}, "needs the module 'no_such_module'"),
        ({"wrapper": ("gymnasium.wrappers:TimeLimit",)}, "could not be made: TypeError"),
        ({"wrapper": ("builtins:repr",)}, "returned str; it must return a gymnasium.Env"),
        ({"wrapper": ("gymnasium.wrappers:NormalizeReward",)}, "computes running means"),
    ],
)
def test_options_that_do_not_work_get_one_sentence(options, words):
    with pytest.raises(MRQError, match=words):
        Recipe("Pendulum-v1", EnvironmentOptions(**options)).make()


@pytest.mark.parametrize(
    ("task", "options", "code"),
    [
        ("FrozenLake-v1", {"env_kwargs": ("is_slippery=False", "map_name=8x8")}, ""),
        ("Pendulum-v1", {"wrapper": ("gymnasium.wrappers:TimeLimit:{'max_episode_steps': 3}",)}, ""),
        ("Pendulum-v1", {"wrapper": ("gymnasium.wrappers.common:TimeLimit:{'max_episode_steps': 3}",)}, ""),
        ("mine:make", {}, "the module mine"),
        ("Pendulum-v1", {"wrapper": ("mine:TimeLimit",)}, "the wrapper mine:TimeLimit"),
        ("Pendulum-v1", {"wrapper": ("gymnasium.wrappers_:TimeLimit",)}, "the wrapper gymnasium.wrappers_:"),
        ("Pendulum-v1", {"wrapper": (f"gymnasium.wrappers:{RecordVideo.__name__}",)}, "the wrapper gymnasium.wrappers"),
        ("Ant-v5", {"env_kwargs": ("xml_file=/etc/passwd",)}, "the argument '/etc/passwd'"),
        ("GymV26Environment-v0", {"env_kwargs": ("env_id=os:abort",)}, "the argument 'os:abort'"),
        ("FrozenLake-v1", {"eval_env_kwargs": ("a={'b': ['../c']}",)}, "the argument '../c'"),
        ("Pendulum-v1", {"env_kwargs": ("render_mode=human",)}, "the argument render_mode, which can open windows"),
        ("Pendulum-v1", {"wrapper": ("gymnasium.wrappers:TimeLimit:{'max_episode_steps': 5_000}",)}, ""),
        ("Pendulum-v1", {"wrapper": ("gymnasium.wrappers:FrameStackObservation:{'stack_size': 4}",)}, ""),
        (
            "Pendulum-v1",
            {"wrapper": ("gymnasium.wrappers:FrameStackObservation:{'stack_size': 1_000_000_000}",)},
            "the argument 1,000,000,000 of gymnasium.wrappers:FrameStackObservation",
        ),
        (
            "Pendulum-v1",
            {"wrapper": ("gymnasium.wrappers:ResizeObservation:{'shape': [84, 1_000_000]}",)},
            "the argument 1,000,000 of gymnasium.wrappers:ResizeObservation",
        ),
        ("Pendulum-v1", {"wrapper": ("gymnasium.wrappers:ResizeObservation:{'shape': [84, 84]}",)}, ""),
        ("FrozenLake-v1", {"env_kwargs": ("a=[b'x']",)}, "the argument b'x'"),
    ],
)
def test_what_could_run_a_strangers_code_is_known(task, options, code):
    assert Recipe(task, EnvironmentOptions(**options)).code.startswith(code)
    assert bool(Recipe(task, EnvironmentOptions(**options)).code) == bool(code)
