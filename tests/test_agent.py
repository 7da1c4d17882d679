"""The Python API, and that it learns."""

import json
import os
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.wrappers import TimeLimit, TransformReward
from stable_baselines3.common.evaluation import evaluate_policy

from mrq import MRQ, Hyperparameters, MRQError
from mrq.algorithms.registry import algorithm_named
from mrq.training.listeners.listener import Listener
from mrq.training.playing import play
from mrq.training.runs import resume
from tests.environments_for_tests import Broken, Counting, Masked, Pixels, Target


def same_parameters(one, other):
    (ours, _), (theirs, _) = (agent._population.learner.state_of(0) for agent in (one, other))
    return all(tensor.equal(theirs[name]) for name, tensor in ours.items())


@pytest.mark.slow
def test_it_learns_and_stable_baselines_evaluates_it():
    h = Hyperparameters(
        hidden_width=64,
        state_embedding=64,
        state_action_embedding=64,
        action_embedding=32,
        batch_size=64,
        random_steps=500,
        target_period=50,
        encoder_learning_rate=1e-3,
        value_learning_rate=1e-3,
        policy_learning_rate=1e-3,
    )
    agent = MRQ(Target, seed=0, hyperparameters=h)
    before, _ = evaluate_policy(agent, Target(), n_eval_episodes=50, deterministic=True, warn=False)
    assert agent.learn(total_steps=1_500) is agent
    after, _ = evaluate_policy(agent, Target(), n_eval_episodes=50, deterministic=True, warn=False)
    assert before < -0.3
    assert after > -0.15  # a random action scores -0.58 on average, the best constant one -0.4


def test_predict_one_and_many(small):
    agent = MRQ("Pendulum-v1", seed=1, hyperparameters=small)
    observation = np.array([1.0, 0.0, 0.5], np.float32)
    action, state = agent.predict(observation, deterministic=True)
    assert state is None
    assert agent.action_space.contains(action)
    actions, _ = agent.predict(np.stack([observation, observation]))
    assert actions.shape == (2, 1)
    np.testing.assert_allclose(actions[0], action, rtol=1e-5)
    with pytest.raises(MRQError, match="shape"):
        agent.predict(np.zeros(5))


def test_states_that_do_not_belong_to_the_observations_get_one_sentence(small):
    agent = MRQ("CartPole-v1", hyperparameters=small, history=2, action_history=True)
    one, three = np.zeros(4, np.float32), np.zeros((3, 4), np.float32)
    (_, of_one), (_, of_three) = agent.predict(one), agent.predict(three)
    for observation, state in ((three, of_one), (one, of_three)):
        with pytest.raises(MRQError, match=r"the state is not that of these observations: it has shape \(., 2,"):
            agent.predict(observation, state)
    with pytest.raises(MRQError, match="the state is 'x'; pass the one that predict returned"):
        agent.predict(one, "x")
    with pytest.raises(MRQError, match=r"episode_start has shape \(2,\)"):
        agent.predict(three, of_three, [True, False])
    with pytest.raises(MRQError, match=r"the observation has shape \(3,\)"):
        agent.predict(np.zeros(3, np.float32), of_one)


def test_masks_are_asked_for_where_the_environment_gives_them_and_refused_elsewhere(small, capsys):
    agent = MRQ(Masked(), hyperparameters=small)
    capsys.readouterr()
    observation, info = agent._environments[0].reset(seed=0)
    assert agent.predict(observation, action_masks=info["action_mask"])[0][0] != 0
    assert not capsys.readouterr().out
    for _ in range(2):
        agent.predict(observation)
    assert capsys.readouterr().out == (
        "Masked: predict is called without action_masks, so any action is allowed; pass the environment's\n"
    )
    with pytest.raises(MRQError, match="the environment gave none in training; leave out action_masks"):
        MRQ("CartPole-v1", hyperparameters=small).predict(np.zeros(4, np.float32), action_masks=[1, 0])


def test_discrete_predictions_sample_unless_deterministic(small):
    agent = MRQ("CartPole-v1", hyperparameters=small)
    observations = np.zeros((200, 4), np.float32)
    assert set(agent.predict(observations)[0].tolist()) == {0, 1}
    assert len(set(agent.predict(observations, deterministic=True)[0].tolist())) == 1


def test_images_keep_their_history_in_the_state(small):
    agent = MRQ(Pixels, hyperparameters=small)
    environment = Pixels()
    first, _ = environment.reset(seed=0)
    action, state = agent.predict(first)
    assert environment.action_space.contains(action)
    second, *_ = environment.step(action)
    _, state = agent.predict(second, state=state)
    assert state.frames.shape == (1, 4, 1, 84, 84)
    np.testing.assert_array_equal(state.frames[0, :, 0], [first, first, first, second])
    _, state = agent.predict(first, state=state, episode_start=np.array([True]))
    np.testing.assert_array_equal(state.frames[0, :, 0], [first] * 4)
    mean, _ = evaluate_policy(agent, Pixels(), n_eval_episodes=2, warn=False)
    assert 0 <= mean <= 20


@pytest.mark.parametrize("make", [lambda: gym.make("Pendulum-v1"), Pixels], ids=["vector", "pixels"])
def test_a_loaded_agent_learns_what_the_saved_one_would_have_learned(small, make, tmp_path):
    agent, straight = (MRQ(make(), seed=3, hyperparameters=small) for _ in range(2))
    straight.learn(60)
    agent.learn(55).save(tmp_path / "agent")
    loaded = MRQ.load(tmp_path / "agent", env=make())
    assert loaded.num_timesteps == 55
    assert same_parameters(loaded, agent)
    loaded.learn(5)
    assert same_parameters(loaded, straight)
    loaded.save(tmp_path / "agent")  # replaces the checkpoint
    assert MRQ.load(tmp_path / "agent", env=make()).num_timesteps == 60
    assert json.loads((tmp_path / "agent" / "run.json").read_text())["settings"]["steps"] == 60


def test_learning_twice_is_learning_once(small):
    once, twice = (MRQ("Pendulum-v1", hyperparameters=small) for _ in range(2))
    once.learn(70)
    twice.learn(30).learn(40)
    assert same_parameters(once, twice)


def test_load_makes_the_environment_again_or_asks_for_it(small, tmp_path):
    MRQ("Pendulum-v1", hyperparameters=small).save(tmp_path / "a")
    assert MRQ.load(tmp_path / "a").learn(10).num_timesteps == 10
    MRQ(Counting(), hyperparameters=small).save(tmp_path / "b")
    with pytest.raises(MRQError, match=r"was given as an object .* \(in Python, env=…\)"):
        MRQ.load(tmp_path / "b")
    with pytest.raises(MRQError, match="was trained with the observation space"):
        MRQ.load(tmp_path / "a", env="CartPole-v1")
    with pytest.raises(MRQError, match="a run of another algorithm, task, environment, seed or hyperparameters"):
        MRQ("Pendulum-v1", seed=9, hyperparameters=small).save(tmp_path / "a")
    with pytest.raises(MRQError, match="no run in"):
        MRQ.load(tmp_path / "c")


def test_the_environment_of_a_saved_agent_is_made_again_with_its_arguments_and_wrappers(small, tmp_path):
    dry = gym.make("FrozenLake-v1", is_slippery=False)
    MRQ(TimeLimit(dry, 12), hyperparameters=small).learn(20).save(tmp_path / "lake")
    loaded = MRQ.load(tmp_path / "lake")
    environment = loaded._environments[0]
    assert (environment.spec.max_episode_steps, environment.unwrapped.P) == (12, dry.unwrapped.P)
    assert play(tmp_path / "lake", 3, False, None, "cpu").mean_length <= 12
    loaded.learn(10).save(tmp_path / "lake")
    MRQ(TransformReward(dry, float), hyperparameters=small).save(tmp_path / "unknown")
    with pytest.raises(MRQError, match="was given as an object that cannot be made again"):
        play(tmp_path / "unknown", 3, False, None, "cpu")
    given = MRQ.load(tmp_path / "unknown", env=dry)
    given.save(tmp_path / "unknown")
    with pytest.raises(MRQError, match="was given as an object"):
        resume([tmp_path / "unknown"], 50, Listener())


def test_an_agent_that_was_trained_in_another_environment_names_that_one_where_it_is_saved(small, tmp_path):
    slippery, dry = (gym.make("FrozenLake-v1", is_slippery=value) for value in (True, False))
    MRQ(slippery, hyperparameters=small).learn(10).save(tmp_path / "slippery")

    def environments_of(name):
        return MRQ.load(tmp_path / name)._environments[0].unwrapped.P

    loaded = MRQ.load(tmp_path / "slippery", env=dry).learn(10)
    for _ in range(2):
        loaded.save(tmp_path / "dry")
    assert environments_of("dry") == dry.unwrapped.P
    loaded.learn(10, run_folder=tmp_path / "recorded")
    assert environments_of("recorded") == dry.unwrapped.P
    loaded.save(tmp_path / "slippery")
    assert environments_of("slippery") == slippery.unwrapped.P
    MRQ.load(tmp_path / "dry", env=TransformReward(dry, float)).save(tmp_path / "unknown")
    with pytest.raises(MRQError, match="was given as an object"):
        MRQ.load(tmp_path / "unknown")


def test_a_saved_agent_keeps_its_task_and_its_suites_protocol(small, tmp_path):
    MRQ("atari/Pong", hyperparameters=small).save(tmp_path / "pong")
    loaded = MRQ.load(tmp_path / "pong")
    loaded.save(tmp_path / "again")
    for name in ("pong", "again"):
        document = json.loads((tmp_path / name / "run.json").read_text())
        assert (document["task"], document["settings"]["evaluate_every"]) == ("atari/Pong", 100_000)
    assert loaded._population.environments.names == ["atari/Pong (seed 0)"]


def test_run_folder_evaluations_and_callback(small, tmp_path):
    agent = MRQ("CartPole-v1", hyperparameters=small)
    (tmp_path / "run").mkdir()
    agent.learn(40, evaluate_every=np.int64(20), run_folder=tmp_path / "run")
    assert len((tmp_path / "run" / "evaluations.csv").read_text().splitlines()) == 4  # header, 0, 20, 40
    steps = []
    agent.learn(1_000, callback=lambda agent: steps.append(agent.num_timesteps) or len(steps) < 5)
    assert steps == [41, 42, 43, 44, 45]
    agent.learn(10, run_folder=tmp_path / "run")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["steps"] == 55
    with pytest.raises(MRQError, match="already exists"):
        MRQ("CartPole-v1", hyperparameters=small).learn(5, run_folder=tmp_path / "run")
    with pytest.raises(MRQError, match="evaluations need environments of their own"):
        MRQ(Counting(), hyperparameters=small).learn(10, evaluate_every=5)
    with pytest.raises(MRQError, match="total_steps is 0"):
        agent.learn(0)
    with pytest.raises(MRQError, match=r"^evaluate_every is -1"):
        agent.learn(1, evaluate_every=-1)


def test_saving_to_the_working_directory(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    agent = MRQ("CartPole-v1", hyperparameters=small).learn(10)
    agent.save(".")
    assert os.path.samefile(".", tmp_path)
    assert MRQ.load(".").num_timesteps == 10


def test_a_fault_keeps_the_agent_usable(small, tmp_path):
    agent = MRQ(lambda: Broken("raises"), hyperparameters=small)
    with pytest.raises(MRQError, match="failed at step 29"):
        agent.learn(100)
    assert agent.num_timesteps == 29
    agent.save(tmp_path / "agent")
    begun = agent._population.episodes.begun[0]
    with pytest.raises(MRQError, match="failed at step 29"):
        agent.learn(100, run_folder=tmp_path / "run")
    assert agent._population.episodes.begun[0] == begun + 1, "the interrupted episode is not continued"
    agent.save(tmp_path / "run")


def test_an_environment_that_failed_once_is_called_again(small):
    class FailsOnce(Counting):
        total = 0

        def step(self, action):
            self.total += 1
            if self.total == 30:
                raise ZeroDivisionError
            return super().step(action)

    agent = MRQ(FailsOnce(), hyperparameters=small)
    with pytest.raises(MRQError, match="failed at step 29"):
        agent.learn(100)
    assert agent.learn(31).num_timesteps == 60


@pytest.mark.parametrize("source", [None, 3, [Target()]])
def test_other_sources_are_refused(source):
    with pytest.raises(MRQError, match="it takes a Gymnasium id"):
        MRQ(source)


def test_whole_numbers_of_any_kind(small, tmp_path):
    agent = MRQ("Pendulum-v1", seed=np.int64(3), hyperparameters=small)
    agent.learn(np.int32(5), run_folder=tmp_path / "run").save(tmp_path / "saved")
    assert MRQ.load(tmp_path / "saved").num_timesteps == 5
    for seed in (None, 1.5, "a", -1):
        with pytest.raises(MRQError, match="whole number"):
            MRQ("Pendulum-v1", seed=seed)
    with pytest.raises(MRQError, match="whole number"):
        agent.learn(1.5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"history": "3"}, "history is '3'; it must be a whole number"),
        ({"image_size": 84.0}, "image_size is 84.0; it must be a whole number"),
        ({"text": -1}, "text is -1; it must be between 0"),
        ({"action_history": 2}, "action_history is 2; it must be True or False"),
        ({"compile": "yes"}, "compile is 'yes'; it must be auto, on, off"),
        ({"envs": 0}, "envs is 0; it must be between 1"),
    ],
)
def test_arguments_are_called_by_their_names_in_python(options, words):
    with pytest.raises(MRQError, match=f"^{words}"):
        MRQ("CartPole-v1", **options)


def test_seeds_decide_everything(small):
    def trained(seed):
        torch.manual_seed(np.random.default_rng().integers(1000))  # must not matter
        np.random.seed(np.random.default_rng().integers(1000))
        return MRQ("Pendulum-v1", seed=seed, hyperparameters=small).learn(60)

    assert same_parameters(trained(0), trained(0))
    assert not same_parameters(trained(0), trained(1))


def test_a_nan_loss_is_reported_every_time_and_never_saved(small, tmp_path):
    agent = MRQ("Pendulum-v1", hyperparameters=replace(small, value_learning_rate=1e30))
    for _ in range(2):
        with pytest.raises(MRQError, match="loss became"):
            agent.learn(100)
    with pytest.raises(MRQError, match="NaN"):
        agent.save(tmp_path / "agent")


def test_evaluations_need_a_new_environment_each_time(small):
    one = Target()
    with pytest.raises(MRQError, match="make a new one at every call"):
        MRQ(lambda: one, hyperparameters=small).learn(60, evaluate_every=20)


def test_hyperparameters_of_another_algorithm_are_refused(small):
    with pytest.raises(MRQError, match=r"those of MR\.Q, not of PPO"):
        MRQ("Pendulum-v1", algorithm="ppo", hyperparameters=small)
    assert MRQ("Pendulum-v1", algorithm="mrq", hyperparameters=small).task == "Pendulum-v1"


def test_a_preset_and_single_hyperparameters():
    paper, small = (algorithm_named("mrq").preset(name) for name in ("paper", "small"))

    def chosen(**options):
        return MRQ("CartPole-v1", **options)._population.hyperparameters

    assert chosen(preset="small") == small
    assert chosen(preset="small", hyperparameters={"batch_size": 9}) == replace(small, batch_size=9)
    assert chosen(hyperparameters={"replay_capacity": 500}) == replace(paper, replay_capacity=500)
    with pytest.raises(MRQError, match=r"MR\.Q has no preset 'tiny'; it has paper, small"):
        chosen(preset="tiny")
    with pytest.raises(MRQError, match=r"MR\.Q has no hyperparameter batchsize"):
        chosen(hyperparameters={"batchsize": 9})
    with pytest.raises(MRQError, match="either preset or an object"):
        chosen(preset="small", hyperparameters=paper)
    with pytest.raises(MRQError, match="batch_size is 'many'; it must be a whole number"):
        chosen(hyperparameters={"batch_size": "many"})
