"""What users of Stable-Baselines3 are used to works the same way."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import FlattenObservation
from stable_baselines3.common.vec_env import DummyVecEnv

from mrq import MRQ, MRQError
from tests.environments_for_tests import Counting

# The example of Stable-Baselines3's README, with fewer steps.
EXAMPLE = """
import gymnasium as gym

from stable_baselines3 import PPO

env = gym.make("CartPole-v1", render_mode="human")

model = PPO("MlpPolicy", env, verbose=1)
model.learn(total_timesteps=300)

vec_env = model.get_env()
obs = vec_env.reset()
for i in range(100):
    action, _states = model.predict(obs, deterministic=True)
    obs, reward, done, info = vec_env.step(action)
    vec_env.render()
    # VecEnv resets automatically
    # if done:
    #   obs = env.reset()

env.close()
"""
CHANGES = {
    "from stable_baselines3 import PPO": "from mrq import MRQ",
    'model = PPO("MlpPolicy", env, verbose=1)': "model = MRQ(env)",
}


@pytest.mark.parametrize("changes", [{}, CHANGES], ids=["PPO", "MRQ"])
def test_their_example_runs_with_two_changed_lines(changes, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # no window is opened
    example = EXAMPLE
    for old, new in changes.items():
        assert example.count(f"\n{old}\n") == 1
        example = example.replace(old, new)
    names = {}
    exec(compile(example, "example", "exec"), names)
    assert names["model"].num_timesteps >= 300
    assert names["obs"].shape == (1, 4)
    assert names["reward"].shape == names["done"].shape == (1,)


@pytest.mark.parametrize("count", [1, 3])
def test_environments_are_stepped_as_theirs(count, small):
    ours = MRQ(Counting, hyperparameters=small, envs=count).get_env()
    theirs = DummyVecEnv([Counting] * count)
    np.testing.assert_array_equal(ours.reset()[:, 1], theirs.reset()[:, 1])
    for _ in range(25):  # episodes of 7, 3 and 12 steps, the first of which was tried out in ours
        results = [environments.step(np.zeros((count, 1), np.float32)) for environments in (ours, theirs)]
        for observations, rewards, dones, infos in results:
            assert (observations.shape, rewards.shape, dones.shape) == ((count, 2), (count,), (count,))
            for observation, done, info in zip(observations, dones, infos, strict=True):
                assert ("terminal_observation" in info) == done == (observation[1] == 0)
                if done:
                    assert info["terminal_observation"][1] in (7, 3, 12)
                    assert info["TimeLimit.truncated"] == (info["terminal_observation"][0] % 2 == 1)


def test_stepping_by_hand_does_not_disturb_what_is_learned(small):
    agent, recorded = MRQ(Counting, hyperparameters=small), []
    agent.learn(5)
    environments = agent.get_env()
    environments.reset()
    environments.step(np.zeros((1, 1), np.float32))
    agent.learn(4, callback=lambda agent: recorded.append(agent._population.replay.present_states(0)[0][-1].tolist()))
    assert [step for _, step in recorded] == [1, 2, 3, 4], "an episode began with the first of these steps"
    environments.step(np.zeros((1, 1), np.float32))  # in the middle of the agent's own episode
    recorded.clear()
    agent.learn(2, callback=lambda agent: recorded.append(agent._population.replay.present_states(0)[0][-1].tolist()))
    assert [step for _, step in recorded] == [1, 2]


def test_an_agent_learns_in_another_environment_with_the_same_spaces(small, tmp_path):
    agent = MRQ("Pendulum-v1", hyperparameters=small)
    agent.learn(5)
    light = gym.make("Pendulum-v1", g=1.0)
    agent.set_env(light)
    agent.learn(5)
    assert agent.num_timesteps == 10
    assert light.unwrapped.last_u is not None, "it was stepped"
    agent.save(tmp_path)
    assert MRQ.load(tmp_path)._environments[0].unwrapped.g == 1.0


def test_an_environment_with_other_spaces_is_refused(small):
    agent = MRQ("Pendulum-v1", hyperparameters=small)
    with pytest.raises(MRQError, match=r"the agent learns with Box\(.* and this environment has Box\(.*Discrete\(2\)"):
        agent.set_env("CartPole-v1")
    assert agent.learn(3).num_timesteps == 3


def test_a_vector_environment_is_its_own(small):
    agent = MRQ(lambda: gym.make_vec("CartPole-v1", num_envs=2), hyperparameters=small)
    with pytest.raises(MRQError, match="the agent's environments are a VectorEnv already; use that one"):
        agent.get_env()


def test_dict_observations_are_batched_by_name(small):
    class Named(gym.Env):
        def __init__(self):
            self.observation_space = spaces.Dict(place=spaces.Box(-1, 1, (2,)), kind=spaces.Discrete(3))
            self.action_space = spaces.MultiDiscrete([2, 3])

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return {"place": np.ones(2, np.float32), "kind": np.int64(2)}, {}

        def step(self, action):
            assert self.action_space.contains(action)
            return {"place": np.zeros(2, np.float32), "kind": np.int64(1)}, 0.5, False, False, {}

    agent = MRQ(Named, hyperparameters=small, envs=2)
    environments = agent.get_env()
    observation = environments.reset()
    assert {name: part.tolist() for name, part in observation.items()} == {"place": [[1, 1], [1, 1]], "kind": [2, 2]}
    actions, _ = agent.predict(observation)
    observation, rewards, _, _ = environments.step(actions)
    assert observation["kind"].tolist() == [1, 1]
    assert rewards.tolist() == [0.5, 0.5]


def test_the_policy_acts_as_the_agent(small):
    agent, seen = MRQ("Pendulum-v1", hyperparameters=small), np.array([1, 0, 0.5], np.float32)
    agent.learn(60)
    np.testing.assert_array_equal(agent.policy.predict(seen)[0], agent.predict(seen)[0])
    assert agent.policy.num_timesteps == 60


@pytest.mark.parametrize("given", [{}, {"total_steps": 3, "total_timesteps": 3}])
def test_the_number_of_steps_is_given_once(given, small):
    with pytest.raises(MRQError, match="learn takes the number of steps to train for, once"):
        MRQ("Pendulum-v1", hyperparameters=small).learn(**given)


def test_steps_are_not_counted_from_zero_again(small):
    agent = MRQ("Pendulum-v1", hyperparameters=small)
    assert agent.learn(total_timesteps=3, reset_num_timesteps=False).learn(2).num_timesteps == 5
    with pytest.raises(MRQError, match="reset_num_timesteps must be False"):
        agent.learn(3, reset_num_timesteps=True)


def test_wrapped_environments_are_the_ones_that_are_returned(small):
    wrapped = FlattenObservation(gym.make("Pendulum-v1"))
    environments = MRQ(wrapped, hyperparameters=small).get_env()
    assert environments.observation_space == wrapped.observation_space
    assert environments.num_envs == 1
