"""Exported files: what runs them does what `predict` does, and what cannot be written gets one sentence."""

import json
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from mrq import MRQ, MRQError, __version__, cli, load_policy
from mrq.algorithms import registry
from mrq.algorithms.mrq.noise import gumbel
from mrq.randomness import Stream, generator
from tests.environments_for_tests import HybridTarget, Pixels, Workshop

ROOT = Path(__file__).parents[2]
SEVERAL = {"image_size": 36, "history": 2, "action_history": True}
STARTS = ([True, True, True], [False, False, False], [False, True, False], [False, False, False])
MASKS = np.array([[1, 0, 0, 0, 1], [0, 1, 1, 1, 0], [0, 0, 0, 1, 1]], np.int8)
TOLERANCE = 1e-5


def run_by_onnx(path):
    session = onnxruntime.InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(None, inputs), strict=True))


def run_by_pytorch(path):
    module = torch.export.load(path).module()

    def run(inputs):
        tensors = {name: torch.from_numpy(value) for name, value in inputs.items()}
        return {name: value.detach().numpy() for name, value in module(tensors).items()}

    return run


def differences(agent, run, with_noise=False):
    """Yields, for each step of three episodes, how far each part of an action is from what predict returns."""
    space, spec, state, fed = agent.observation_space, agent._translator.spec, None, {}
    space.seed(0)
    noise = generator(agent.seed, Stream.PREDICTION)
    for starts in STARTS:
        samples = [space.sample() for _ in range(3)]
        keys = list(space) if isinstance(space, gym.spaces.Dict) else ["observation"]
        parts = {key: np.stack([one[key] if len(keys) > 1 else one for one in samples]) for key in keys}
        observation = parts if len(keys) > 1 else parts["observation"]
        masks = MASKS if spec.masked else None
        expected, state = agent.predict(observation, state, np.array(starts), not with_noise, masks)
        inputs = parts | fed
        if masks is not None:
            inputs["action_mask"] = masks
        if with_noise:
            drawn = [gumbel(noise, (spec.action_size,)) for _ in samples]
            inputs["noise"] = np.stack(drawn)[:, spec.continuous :]
        if state is not None:
            inputs["episode_start"] = np.array(starts)
        if not fed and state is not None:  # of zeros, whose values do not matter
            inputs |= _first_state(agent)
        outputs = run(inputs)
        fed = {name.removeprefix("next_"): value for name, value in outputs.items() if name.startswith("next_")}
        if not isinstance(expected, dict):
            expected = {"": expected}
        for name, action in expected.items():
            found = outputs["action" + (f".{name}" if name else "")]
            assert (found.dtype, found.shape) == (action.dtype, action.shape)
            yield np.abs(found.astype(float) - action).max()


def _first_state(agent):
    from mrq.export.graph import PolicyGraph

    graph = PolicyGraph(agent._translator, agent._population.learner, sampled=False)
    return {name: t.numpy() + 1 for name, t in graph.inputs(3).items() if name.startswith("state.")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "options", "sample"),
    [
        ("Pendulum-v1", {}, False),
        (Pixels, {"image_size": 40}, False),
        ("CartPole-v1", {"history": 2}, True),
        (HybridTarget, {}, True),
        (Workshop, SEVERAL, False),
        (Workshop, SEVERAL, True),
    ],
    ids=["vector", "image", "discrete", "hybrid", "parts", "parts, sampled"],
)
def test_onnx_does_what_predict_does(make, options, sample, small, tmp_path):
    agent = MRQ(make, seed=1, hyperparameters=small, **options)
    agent.learn(60).export(tmp_path / "policy.onnx", sample)
    found = list(differences(agent, run_by_onnx(tmp_path / "policy.onnx"), sample))
    assert len(found) >= 4
    assert max(found) <= TOLERANCE


@pytest.mark.slow
def test_the_same_image_agent_of_drqv2(tmp_path):
    h = {"random_steps": 20, "hidden_width": 16, "feature_size": 8, "batch_size": 8, "replay_capacity": 200}
    agent = MRQ(Slope, algorithm="drqv2", hyperparameters=h, image_size=40)
    agent.learn(30).export(tmp_path / "policy.onnx")
    assert max(differences(agent, run_by_onnx(tmp_path / "policy.onnx"))) <= TOLERANCE


class Speaking(HybridTarget):
    """Also says something."""

    def __init__(self):
        super().__init__()
        self.observation_space["words"] = gym.spaces.Text(5)

    def reset(self, **options):
        observation, info = super().reset(**options)
        return observation | {"words": "ah"}, info

    def step(self, action):
        observation, *rest = super().step(action)
        return observation | {"words": "oh"}, *rest


class Slope(Pixels):
    """Pixels with a continuous action."""

    def __init__(self):
        super().__init__()
        self.action_space = gym.spaces.Box(-2, 3, (1,), np.float32)


@pytest.mark.parametrize(("make", "options"), [("Pendulum-v1", {}), (Workshop, SEVERAL)], ids=["vector", "parts"])
def test_pytorchs_file_does_what_predict_does(make, options, small, tmp_path):
    agent = MRQ(make, seed=1, hyperparameters=small, **options)
    agent.learn(60).export(tmp_path / "policy.pt2")
    assert max(differences(agent, run_by_pytorch(tmp_path / "policy.pt2"))) <= TOLERANCE


def test_what_an_algorithm_carries_is_a_state_of_the_file(tmp_path, monkeypatch):
    """The tiny algorithm's action is its preferred one, divided by the steps of the episode so far."""
    monkeypatch.setitem(registry.ALGORITHMS, "tiny", "tests.tiny_algorithm:TINY")
    agent = MRQ("Pendulum-v1", algorithm="tiny")
    agent.learn(40).export(tmp_path / "policy.pt2")
    run = run_by_pytorch(tmp_path / "policy.pt2")
    inputs = {"observation": np.zeros((2, 3), np.float32)}
    outputs = {"next_state.carried.steps": np.full(2, 7, np.float32)}
    shares = []
    for starts in ([True, True], [False, False], [False, True]):
        own = {"episode_start": np.array(starts), "state.carried.steps": outputs["next_state.carried.steps"]}
        outputs = run(inputs | own)
        shares.append(outputs["action"][:, 0] / agent.predict(np.zeros(3, np.float32))[0])
    np.testing.assert_allclose(shares, [[1, 1], [1 / 2, 1 / 2], [1 / 3, 1]], rtol=1e-6)


@pytest.mark.slow
def test_the_command_and_the_example(small, tmp_path, capsys):
    """The example imports neither PyTorch nor mrq, and plays as evaluations do: deterministically, until the end."""
    agent = MRQ(gym.make("CartPole-v1"), seed=3, hyperparameters=small, history=2)
    agent.learn(60).save(tmp_path / "run")
    file = tmp_path / "policy.onnx"
    cli.parse(["export", str(tmp_path / "run"), str(file)]).run()
    assert f"written: {file}" in capsys.readouterr().out
    metadata = {entry.key: entry.value for entry in onnx.load(file).metadata_props}
    assert metadata == {
        **{"mrq": __version__, "torch": torch.__version__, "algorithm": "MR.Q", "task": "CartPole-v1"},
        **{"seed": "3", "steps": "60", "sampled": "False"},
    }
    example = ROOT / "examples" / "play_onnx.py"
    assert len(example.read_text().splitlines()) < 40
    assert not {"torch", "mrq"} & set(example.read_text().replace(",", " ").split())
    played = subprocess.run([sys.executable, example, file, "CartPole-v1"], capture_output=True, text=True, check=True)
    policy, expected = load_policy(tmp_path / "run"), []
    for episode in range(5):
        environment, state, total, over = gym.make("CartPole-v1"), None, 0.0, False
        observation, _ = environment.reset(seed=episode)
        while not over:
            action, state = policy.predict(observation, state, deterministic=True)
            observation, reward, terminated, truncated, _ = environment.step(action)
            total, over = total + reward, terminated or truncated
        expected.append(f"episode {episode}: return {total:,.1f}")
    assert played.stdout.splitlines() == expected


def test_the_file_of_pytorch_says_what_it_is(small, tmp_path):
    agent = MRQ("Pendulum-v1", seed=3, hyperparameters=small)
    agent.export(tmp_path / "policy.pt2")
    said = {"mrq.json": ""}
    torch.export.load(tmp_path / "policy.pt2", extra_files=said)
    assert json.loads(said["mrq.json"])["task"] == "Pendulum-v1"


def test_what_cannot_be_written_gets_a_sentence_and_leaves_what_was_there(small, tmp_path, monkeypatch):
    agent = MRQ("Pendulum-v1", hyperparameters=small)
    with pytest.raises(MRQError, match=r"a policy is written as .onnx or .pt2, which '.*policy.h5' does not end with"):
        agent.export(tmp_path / "policy.h5")
    (tmp_path / "policy.pt2").write_text("mine")
    with pytest.raises(MRQError, match=r"actions without choices have no noise, .* leave out --sample"):
        agent.export(tmp_path / "policy.pt2", sample=True)

    def unwritable(*_):
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(agent._population.learner, "choose", unwritable)
    with pytest.raises(MRQError, match=r"this policy cannot be written as .pt2: ZeroDivisionError: on purpose"):
        agent.export(tmp_path / "policy.pt2")
    assert [path.name for path in tmp_path.iterdir()] == ["policy.pt2"]
    assert (tmp_path / "policy.pt2").read_text() == "mine"
    with pytest.raises(MRQError, match="the part 'words' of the observation is text, which exported policies cannot"):
        MRQ(Speaking, hyperparameters=small, text=3).export(tmp_path / "policy.pt2")
    with pytest.raises(MRQError, match="there is no folder"):
        cli.parse(["export", str(tmp_path), str(tmp_path / "none" / "policy.onnx")]).run()
