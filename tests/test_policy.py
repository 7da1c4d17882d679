"""A policy from a run folder: it acts as the agent does, without the environment and without the replay."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import mrq
from mrq import MRQ, MRQError, load_policy
from mrq.algorithms import registry
from mrq.training.playing import play
from tests.documents import document_of
from tests.environments_for_tests import HybridTarget, Masked, Pixels, Workshop

SEVERAL = {"image_size": 32, "history": 2, "action_history": True}


def learned(make, small, path, **options):
    agent = MRQ(make, seed=2, hyperparameters=small, **options)
    agent.learn(60).save(path)
    return agent


def batch_of(space, count):
    space.seed(0)
    samples = [space.sample() for _ in range(count)]
    return {name: np.stack([one[name] for one in samples]) for name in space} if hasattr(space, "spaces") else samples


@pytest.mark.parametrize(
    ("make", "options"), [("Pendulum-v1", {}), (Pixels, {}), (HybridTarget, {}), (Masked, {}), (Workshop, SEVERAL)]
)
def test_it_acts_as_its_agent_does(make, options, small, tmp_path):
    """Three of these environments cannot be made again from the folder; no policy needs them."""
    agent = learned(make, small, tmp_path / "run", **options)
    policy = load_policy(tmp_path / "run", device="cpu")
    assert (policy.task, policy.seed) == (agent.task, 2)
    assert (policy.observation_space, policy.action_space) == (agent.observation_space, agent.action_space)
    observations = [batch_of(policy.observation_space, 3) for _ in range(2)]
    masks = None
    if agent._translator.spec.masked:
        masks = np.array([[1, 0, 0, 0, 1], [0, 1, 1, 1, 0], [0, 0, 0, 1, 1]])
    states, starts = [None, None], np.array([False, True, False])
    for observation in observations:
        for deterministic in (True, False):
            found = [
                each.predict(observation, state, None if state is None else starts, deterministic, masks)
                for each, state in zip((agent, policy), states, strict=True)
            ]
            for ours, theirs in zip(*(_leaves(action) for action, _ in found), strict=True):
                np.testing.assert_array_equal(ours, theirs)
            states = [state for _, state in found]
    assert (states[0] is None) == (make in ("Pendulum-v1", HybridTarget, Masked))


def _leaves(action):
    return list(action.values()) if isinstance(action, dict) else [action]


def test_what_the_replay_holds_is_not_read(small, tmp_path):
    agent = learned(Pixels, small, tmp_path / "run")
    (checkpoint,) = (tmp_path / "run" / "checkpoints").iterdir()
    arrays = list(checkpoint.glob("*.npy"))
    assert arrays
    for array in arrays:
        array.unlink()
    observation = np.zeros((84, 84), np.uint8)
    action, _ = load_policy(tmp_path / "run").predict(observation, deterministic=True)
    assert action == agent.predict(observation, deterministic=True)[0]
    (checkpoint / "learner.safetensors").write_bytes(b"x")
    with pytest.raises(MRQError, match=r"learner.safetensors is missing, cut short or changed"):
        load_policy(tmp_path / "run")


def test_a_damaged_checkpoint_is_replaced_by_the_one_before(small, tmp_path, capsys):
    agent = learned("Pendulum-v1", small, tmp_path / "run")
    observation = np.array([1.0, 0.0, 0.5], np.float32)
    before, _ = agent.predict(observation)
    agent.learn(20).save(tmp_path / "run")
    assert (agent.predict(observation)[0] != before).all()
    latest = max((tmp_path / "run" / "checkpoints").iterdir())
    (latest / "learner.safetensors").write_bytes(b"x")
    np.testing.assert_array_equal(load_policy(tmp_path / "run").predict(observation)[0], before)
    assert "the one before it, of step 60, is used" in capsys.readouterr().out


def test_an_environment_that_is_code_is_neither_made_nor_imported(small, tmp_path, monkeypatch):
    (tmp_path / "of_a_stranger.py").write_text(
        "import pathlib, gymnasium\n"
        "pathlib.Path('imported').touch()\n"
        "def make(**options): return gymnasium.make('Pendulum-v1', **options)\n"
    )
    monkeypatch.chdir(tmp_path)
    learned("of_a_stranger:make", small, tmp_path / "run")
    (tmp_path / "imported").unlink()
    monkeypatch.delitem(sys.modules, "of_a_stranger")
    action, _ = load_policy("run").predict(np.zeros(3, np.float32))
    assert action.shape == (1,)
    assert not (tmp_path / "imported").exists()


@pytest.mark.slow
def test_a_library_that_unpickles_needs_trust(tmp_path):
    agent = MRQ("CartPole-v1", algorithm="dqn")
    agent.learn(20).save(tmp_path / "run")
    with pytest.raises(MRQError, match="whose files can hold code"):
        load_policy(tmp_path / "run")
    observation = np.array([0.1, 0.0, -0.1, 0.0], np.float32)
    policy = load_policy(tmp_path / "run", trust=True)
    assert policy.predict(observation, deterministic=True)[0] == agent.predict(observation, deterministic=True)[0]
    with pytest.raises(MRQError, match="policies of Stable-Baselines3 cannot be exported by mrq"):
        policy.export(tmp_path / "policy.pt2")


def test_what_an_algorithm_carries_is_in_the_state(tmp_path, monkeypatch):
    """The tiny algorithm's action is its preferred one, divided by the steps of the episode so far."""
    monkeypatch.setitem(registry.ALGORITHMS, "tiny", "tests.tiny_algorithm:TINY")
    agent = MRQ("Pendulum-v1", algorithm="tiny")
    agent.learn(40).save(tmp_path / "run")
    policy = load_policy(tmp_path / "run")
    observations = np.zeros((2, 3), np.float32)
    first, state = policy.predict(observations)
    assert (np.abs(first) > 1e-3).all()
    second, after_two = policy.predict(observations, state)
    np.testing.assert_allclose(second, first / 2, rtol=1e-6)
    third, _ = policy.predict(observations, after_two, episode_start=np.array([False, True]))
    np.testing.assert_allclose(third, first / [[3], [1]], rtol=1e-6)
    again, _ = policy.predict(observations, state)
    np.testing.assert_array_equal(again, second)  # a state is not changed by its use


def test_a_run_that_does_not_define_its_spaces_gets_a_sentence(small, tmp_path):
    learned("Pendulum-v1", small, tmp_path / "run")
    document = document_of(tmp_path / "run")
    definitions = document["spaces"].pop("definitions")
    (tmp_path / "run" / "run.json").write_text(json.dumps(document))
    with pytest.raises(MRQError, match=r"does not define the run's spaces: .*; use MRQ.load, which makes the env"):
        load_policy(tmp_path / "run")
    assert len(play(tmp_path / "run", 1, True, None, "cpu").returns) == 1
    definitions["observation"]["shape"] = [10**12]
    document["spaces"]["definitions"] = definitions
    (tmp_path / "run" / "run.json").write_text(json.dumps(document))
    with pytest.raises(MRQError, match=r"the spaces in .* cannot be used \(ValueError: the space has more than 50,000"):
        load_policy(tmp_path / "run")


def test_a_policy_of_other_sizes_does_not_fit_its_networks(small, tmp_path):
    learned("Pendulum-v1", small, tmp_path / "run")
    document = document_of(tmp_path / "run")
    document["spaces"]["definitions"]["observation"] |= {"shape": [4], "low": "-1", "high": "1"}
    (tmp_path / "run" / "run.json").write_text(json.dumps(document))
    with pytest.raises(MRQError, match=r"the checkpoint in .* does not fit its run.json"):
        load_policy(tmp_path / "run")


def test_a_folder_without_a_checkpoint_has_no_policy(small, tmp_path):
    learned("Pendulum-v1", small, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    with pytest.raises(MRQError, match="has no checkpoint yet"):
        load_policy(tmp_path / "run")
    with pytest.raises(MRQError, match="there is no run in"):
        load_policy(Path(tmp_path))
    assert mrq.load_policy is load_policy
