"""A folder for a model hub: what it holds, what its card says, and that its command trains the same agent."""

import json
import shlex

import gymnasium as gym
import numpy as np
import onnxruntime
import pytest

from mrq import MRQ, MRQError, cli
from mrq.hub import training_command
from mrq.training.evaluation import Evaluation
from mrq.training.run_folder import RunFolder
from tests.environments_for_tests import Pixels


def front_matter(text):
    _, head, _ = text.split("---\n", 2)
    return {name: json.loads(value) for name, _, value in (line.partition(": ") for line in head.splitlines())}


@pytest.mark.slow
def test_the_folder_of_a_run(small, tmp_path, capsys):
    MRQ("Pendulum-v1", seed=4, hyperparameters=small).learn(60).save(tmp_path / "run")
    cli.parse(["export", str(tmp_path / "run"), "--hub", str(tmp_path / "hub")]).run()
    printed = capsys.readouterr().out
    assert f"hf upload USER/NAME {tmp_path / 'hub'}" in printed
    assert sorted(path.name for path in (tmp_path / "hub").iterdir()) == [
        *("README.md", "film.mp4", "policy.onnx", "run.json")
    ]
    assert RunFolder(tmp_path / "hub").settings == RunFolder(tmp_path / "run").settings
    session = onnxruntime.InferenceSession(tmp_path / "hub" / "policy.onnx")
    assert session.run(None, {"observation": np.zeros((1, 3), np.float32)})[0].shape == (1, 1)
    text = (tmp_path / "hub" / "README.md").read_text()
    head = front_matter(text)
    assert (head["library_name"], head["license"]) == ("mrq", "apache-2.0")
    (result,) = head["model-index"][0]["results"]
    mean = result["metrics"][0]["value"]
    assert -2000 < mean < -100  # of an agent that has not learned
    assert f"| return | {mean:,.1f} [" in text
    assert "60 environment steps, seed 4" in text
    (command,) = (line.strip() for line in text.splitlines() if line.startswith("    mrq train"))
    again = cli.parse(shlex.split(command)[1:])
    assert (again.tasks, again.seed, again.settings.steps) == (("Pendulum-v1",), 4, 60)
    assert again.settings.hyperparameters == small
    with pytest.raises(MRQError, match="exists already; choose another folder"):
        cli.parse(["export", str(tmp_path / "run"), "--hub", str(tmp_path / "hub")]).run()


def test_the_command_has_every_option_of_the_environment(small, tmp_path):
    environment = gym.make("FrozenLake-v1", is_slippery=False, max_episode_steps=30)
    agent = MRQ(environment, hyperparameters=small, preset=None, history=2, action_history=True)
    agent.learn(60).save(tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    again = cli.parse(shlex.split(training_command(run, 60))[1:])
    assert again.settings.environment == run.settings.environment
    assert again.settings.hyperparameters == small


def test_a_card_shows_the_interval_of_the_mean(small, tmp_path):
    from mrq.hub import card

    MRQ(Pixels, hyperparameters=small).save(tmp_path / "run")
    text = card(RunFolder(tmp_path / "run"), 7, Evaluation([3.0] * 10, [5] * 10), filmed=False)
    assert "| return | 3.0 [3.0, 3.0] |" in text
    assert "was given as an object in Python, so no command trains it again" in text
    assert "film.mp4" not in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give either a file, such as policy.onnx, or --hub"),
        (["a.onnx", "--hub", "hub"], "give either a file"),
        (["a.onnx", "--env", "CartPole-v1"], "--env is for --hub"),
        (["--hub", "hub", "--sample"], "--sample is for a file"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments, words, tmp_path):
    with pytest.raises(MRQError, match=words):
        cli.parse(["export", str(tmp_path), *arguments]).run()
