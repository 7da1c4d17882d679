"""Gymnasium's vectors of environments, in all their modes."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import TransformReward

from mrq import MRQ, MRQError
from mrq.algorithms.registry import algorithm_named
from mrq.environments.options import EnvironmentOptions
from mrq.environments.recipe import Recipe
from mrq.environments.vector import CheckedVector, VectorEnvironments
from mrq.interface import Identity
from mrq.training.building import build_population
from mrq.training.evaluation import evaluate
from mrq.training.listeners.listener import Listener
from mrq.training.playing import play
from mrq.training.runs import resume, start
from mrq.training.settings import Settings
from tests.environments_for_tests import Broken, Counting
from tests.training.populations import CPU, advance
from tests.training.recording import Recording

MODES = pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
LENGTHS = ((7, 9), (5, 8, 6), (11,))  # of each environment's episodes


def vector_of(makes, mode=AutoresetMode.NEXT_STEP, options=EnvironmentOptions(), masked=False):  # noqa: B008
    return CheckedVector(SyncVectorEnv(makes, autoreset_mode=mode), options, masked)


def counting(mode):
    return vector_of([lambda own=own: Counting(own) for own in LENGTHS], mode)


def population_of(vectors, h, **options):
    identities = [Identity("task", seed) for seed in range(len(vectors))]
    environments = VectorEnvironments(vectors, [identity.name for identity in identities])
    agents = build_population(identities, environments, h, CPU, **options)
    agents.expect(1_000)
    return agents


@MODES
@pytest.mark.parametrize("overlap", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_only_what_happened_is_stored(mode, overlap, small):
    agents = population_of([counting(mode), counting(mode)], small, overlap=overlap)
    advance(agents, 600)
    for agent in range(2):
        uniforms = agents.replay.rewards.new_tensor(np.random.default_rng(0).random((2, 800)))
        slots, states, _, rewards, alive = (each[agent].numpy() for each in agents.replay.sample(uniforms, (0, 1, 5)))
        # Episode e rewards step t with 100 * e + t, and terminates if e is even.
        (episode, step), (next_episode, next_step) = states[:, 0].T, states[:, 1].T
        expected = 100 * episode[:, None] + step[:, None] + np.arange(5)
        np.testing.assert_array_equal(rewards, expected * alive[:, :-1])
        np.testing.assert_array_equal(next_episode, episode)
        np.testing.assert_array_equal(next_step, step + 1)
        for slot, e, t, survives in zip(slots % 3, episode.astype(int), step, alive, strict=True):
            length = LENGTHS[slot][e % len(LENGTHS[slot])]
            assert t < length
            terminates = e % 2 == 0
            assert survives.sum() == (min(length - t, 6) if terminates else 6)
        assert {(slot, e % 2) for slot, e in zip(slots % 3, episode, strict=True)} == {
            (s, p) for s in range(3) for p in (0, 1)
        }


@MODES
def test_evaluations_play_whole_episodes(mode, small):
    agents = population_of([counting(mode)], small)
    recorded = evaluate(agents.learner, agents.environments, agents.identities, 0, episodes=7)
    assert recorded is not None
    (evaluation,), failed = recorded
    assert not failed
    assert len(evaluation.lengths) == 7
    for total, length in zip(evaluation.returns, evaluation.lengths, strict=True):
        episode, rest = divmod(total - length * (length - 1) / 2, 100 * length)
        assert rest == 0
        assert any(own[int(episode) % len(own)] == length for own in LENGTHS)


class Odd(gym.Env):
    """Allows the options 1 and 3 of four, in `info` or in the observation; another one is an error."""

    def __init__(self, where):
        mask = {"action_mask": spaces.Box(0, 1, (4,), np.int8)} if where == "observation" else {}
        self.observation_space = spaces.Dict({"place": spaces.Box(-1, 1, (2,), np.float32), **mask})
        self.action_space, self.where = spaces.Discrete(4), where

    def _now(self):
        mask, self.steps = {"action_mask": np.array([0, 1, 0, 1], np.int8)}, self.steps + 1
        observation = {"place": np.full(2, self.steps / 20, np.float32)}
        return (observation | mask, {}) if self.where == "observation" else (observation, mask)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return self._now()

    def step(self, action):
        assert action in (1, 3), "it is forbidden"
        observation, info = self._now()
        return observation, 1.0, False, self.steps > 9, info


@MODES
@pytest.mark.parametrize("where", ["info", "observation"])
def test_masks_are_obeyed(mode, where, small):
    makes = [lambda: Odd(where)] * 2
    assert vector_of(makes, mode).gives_masks(0)
    agents = population_of([vector_of(makes, mode, masked=True)], small)
    agents.on_fault = lambda agent, fault: pytest.fail(str(fault))
    advance(agents, 200)
    taken = agents.replay.actions[0][agents.replay.actions[0].any(1)]
    assert taken[:, [1, 3]].sum() == len(taken) > 100
    evaluated = evaluate(agents.learner, agents.environments, agents.identities, 0, episodes=4)
    assert evaluated is not None
    assert evaluated[0][0].returns == [9.0] * 4


def test_an_environment_that_fails_stops_its_agent_alone(small):
    faulty, sound = (
        vector_of([lambda: Broken("none"), lambda fault=fault: Broken(fault)]) for fault in ("raises", "none")
    )
    agents, told = population_of([faulty, sound], small), []
    agents.on_fault = lambda agent, fault: told.append((agent, str(fault)))
    advance(agents, 140)
    ((agent, sentence),) = told
    assert agent == 0
    assert "the environment of task (seed 0) failed at step" in sentence
    assert agents.active.tolist() == [False, True]


class Wrong(SyncVectorEnv):
    """Misbehaves in its second step."""

    def __init__(self, what, mode=AutoresetMode.NEXT_STEP):
        super().__init__([lambda: Counting((1,))] * 2, autoreset_mode=mode)
        self.what, self.taken = what, 0

    def step(self, actions):
        observations, rewards, terminated, truncated, info = super().step(actions)
        self.taken += 1
        if self.taken == 2:
            match self.what:
                case "rewards":
                    rewards = rewards[:1]
                case "nan":
                    rewards = np.array([0, np.nan])
                case "flags":
                    terminated = terminated.astype(int)
                case "observations":
                    observations = observations[:1]
                case "four":
                    return observations, rewards, terminated, info
                case "no last":
                    info = {}
        return observations, rewards, terminated, truncated, info


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("rewards", "the rewards are float64 of shape (1,); they must be one value for each of the 2 environments"),
        ("nan", "the rewards contain NaN, infinity, or numbers too large for float32"),
        ("flags", "the terminations are int64 of shape (2,); they must be one value for each"),
        ("observations", "it returned 1 observations for 2 environments"),
        ("four", "step() did not return the five values"),
        ("no last", "an episode ended and its infos have no 'final_obs', as its mode SameStep requires"),
    ],
)
def test_misbehaviour_is_named(what, sentence):
    mode = AutoresetMode.SAME_STEP if what == "no last" else AutoresetMode.NEXT_STEP
    vector = CheckedVector(Wrong(what, mode), EnvironmentOptions())
    environments, both = VectorEnvironments([vector], ["task"]), np.ones(2, bool)
    environments.reset(both, [0, 1], 0)
    actions = np.zeros((2, 1), np.float32)
    assert not environments.step(both, actions, 0)[1]
    _, faults = environments.step(both, actions, 1)
    assert faults.failed.keys() == {0, 1}
    assert faults.failed[0].startswith(f"the environment of task failed at step 1: {sentence}")


def test_a_vector_that_does_not_say_how_episodes_begin_is_refused():
    vector = SyncVectorEnv([Counting])
    vector.metadata = {}
    with pytest.raises(MRQError, match=r"does not say how its episodes begin; set its metadata\['autoreset_mode'\]"):
        CheckedVector(vector, EnvironmentOptions())


OF_ITS_OWN = EnvironmentOptions(env_kwargs=("num_envs=4", "vectorization_mode=vector_entry_point"))


@pytest.fixture
def settings(small):
    return Settings(
        steps=130, evaluate_every=60, evaluation_episodes=3, workers=0, environment=OF_ITS_OWN, hyperparameters=small
    )


class StopsAt(Listener):
    def __init__(self, steps):
        self._steps = steps

    def step(self, steps, steps_per_second):
        return steps < self._steps


def test_an_id_that_simulates_many_environments_at_once_is_trained_resumed_and_played(settings, tmp_path):
    (run,) = start([Identity("CartPole-v1", 0)], settings, tmp_path, StopsAt(90)).runs
    assert (run.step, run.settings.envs) == (92, 4)
    recording = Recording()
    (run,) = resume([run.path], None, recording).runs
    assert [int(row["step"]) for row in run.evaluations()] == [0, 60, 120, 132]
    assert any(
        "could not be brought back to where it was in 4 of 4 environments" in each for each in recording.messages
    )
    assert play(run.path, 5, False, None, "cpu").mean > 0
    assert play(run.path, 5, False, None, "cpu", environment="CartPole-v1").mean > 0, "one of them has the same spaces"
    assert MRQ.load(run.path).learn(8).num_timesteps == 140


def test_more_environments_than_fit_are_refused(settings, tmp_path):
    options = EnvironmentOptions(env_kwargs=("num_envs=1000000000",))
    with pytest.raises(MRQError, match="num_envs is 1,000,000,000; it must be between 1 and 10,000"):
        start([Identity("CartPole-v1", 0)], replace(settings, environment=options), tmp_path, Listener())


@pytest.mark.parametrize(
    ("kwargs", "sentence"),
    [
        (("vectorization_mode=async",), "vectorization_mode=async starts processes of its own; give --envs N"),
        (("num_envs=2.5",), "num_envs is 2.5; it must be a whole number"),
        (("num_envs=True",), "num_envs is True; it must be a whole number"),
    ],
)
def test_arguments_that_no_vector_can_have_are_refused(kwargs, sentence):
    with pytest.raises(MRQError, match=sentence):
        Recipe("CartPole-v1", EnvironmentOptions(env_kwargs=kwargs)).make()


def test_a_wrapped_vector_is_not_made_again_without_its_wrapper(small):
    vector = TransformReward(gym.make_vec("CartPole-v1", 4), lambda rewards: 2 * rewards)
    agent = MRQ(vector, hyperparameters=small)
    with pytest.raises(MRQError, match="evaluations need environments of their own"):
        agent.learn(8, evaluate_every=4)


def test_an_algorithm_that_takes_one_environment_takes_no_vector(settings, tmp_path):
    options = EnvironmentOptions(env_kwargs=("num_envs=1",))
    ppo = replace(settings, environment=options, hyperparameters=algorithm_named("ppo").hyperparameters())
    with pytest.raises(MRQError, match="PPO takes one environment per agent, and no VectorEnv"):
        start([Identity("CartPole-v1", 0)], ppo, tmp_path, Listener())


def test_a_run_is_resumed_with_as_many_environments_or_not_at_all(settings, tmp_path):
    plain = replace(settings, environment=EnvironmentOptions(), envs=2, steps=60)
    (run,) = start([Identity("CartPole-v1", 0)], plain, tmp_path, Listener()).runs
    with pytest.raises(MRQError, match=r"makes 4 environments at once, and CartPole-v1 \(seed 0\) trains in 2"):
        resume([run.path], 80, Listener(), environment=f"{__name__}:four")


def four():
    return gym.make_vec("CartPole-v1", 4)


class InRows(SyncVectorEnv):
    """Gives the last infos as an array of dicts, as some simulators do."""

    def step(self, actions):
        *results, info = super().step(actions)
        if "final_info" in info:
            masks = info["final_info"]["action_mask"]
            info["final_info"] = np.array([{"action_mask": mask} for mask in masks], dtype=object)
        return *results, info


def test_last_infos_may_be_rows(small):
    vector = InRows([lambda: Odd("info")] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    agents = population_of([CheckedVector(vector, EnvironmentOptions(), masked=True)], small)
    agents.on_fault = lambda agent, fault: pytest.fail(str(fault))
    advance(agents, 100)


def test_another_number_of_environments_is_refused(settings, tmp_path):
    with pytest.raises(MRQError, match="--envs is 3, but the VectorEnv has 4 environments; leave out --envs"):
        start([Identity("CartPole-v1", 0)], replace(settings, envs=3), tmp_path, Listener())
    with pytest.raises(MRQError, match="envs is 2, but the VectorEnv has 3 environments; leave it out"):
        MRQ(SyncVectorEnv([Counting] * 3), envs=2)


@pytest.mark.parametrize("source", [lambda: SyncVectorEnv([Counting] * 3), SyncVectorEnv([Counting] * 3)])
def test_in_python(source, small):
    agent = MRQ(source, hyperparameters=small, task="counting").learn(61)
    assert agent.num_timesteps == 63
    assert agent.predict(np.zeros(2, np.float32))[0].shape == (1,)
    if callable(source):
        agent.learn(10, evaluate_every=10)
    else:
        with pytest.raises(MRQError, match="evaluations need environments of their own"):
            agent.learn(10, evaluate_every=10)
