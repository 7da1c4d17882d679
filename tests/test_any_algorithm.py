"""Everything that trains, plays, records and reports takes an algorithm that it does not know by name."""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from mrq import MRQ, MRQError, cli
from mrq.algorithms import registry
from mrq.interface import Identity
from mrq.training.run_folder import RunFolder
from mrq.training.runs import resume, start
from mrq.training.settings import Settings
from tests import tiny_algorithm
from tests.command_line import assert_same, rows, steps_in
from tests.training.populations import advance, assert_equal, fleet, population
from tests.training.recording import Recording

PLACE = "tests.tiny_algorithm:TINY"
ROOT = Path(__file__).parents[1]
SHORT = ("--steps", 60, "--evaluate-every", 20, "--evaluation-episodes", 2, "--workers", 0, "--device", "cpu")


@pytest.fixture(autouse=True)
def _registered(monkeypatch, tmp_path):
    """Registers the algorithm here and in the processes that the commands start."""
    monkeypatch.setitem(registry.ALGORITHMS, "tiny", PLACE)
    (tmp_path / "sitecustomize.py").write_text(
        f'from mrq.algorithms.registry import ALGORITHMS\n\nALGORITHMS["tiny"] = "{PLACE}"\n'
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def mrq(monkeypatch, capsys):
    """Runs a command in this process; returns what it printed."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["mrq", *map(str, arguments)])
        with suppress(SystemExit):  # as after --help
            cli.main()
        printed = capsys.readouterr()
        assert not printed.err
        return printed.out

    return run


def test_the_commands(mrq, tmp_path):
    help_text = mrq("train", "--algorithm", "tiny", "--help")
    assert "--rate" in help_text
    assert "Step size towards better actions" in help_text
    assert "--batch-size" not in help_text
    train = ("train", "Pendulum-v1", "--algorithm", "tiny", "--rate", 0.25, "--seeds", 0, 1)
    out = mrq(*train, *SHORT)
    assert "step 20: random steps are over, learning begins" in out
    assert "step 60: return " in out
    folder = tmp_path / "runs" / "Pendulum-v1" / "seed-0"
    document = json.loads((folder / "run.json").read_text())
    assert (document["algorithm"], document["parameters"]) == ("Tiny", 1)
    assert document["settings"]["hyperparameters"] == {"rate": 0.25, "noise": 0.3, "random_steps": 20}
    assert steps_in(folder) == [0, 20, 40, 60]
    assert "(episodes: 3)" in mrq("evaluate", folder, "--episodes", 3)
    assert "resuming at step 60 of 70" in mrq("resume", folder, "--steps", 70)
    assert steps_in(folder) == [0, 20, 40, 60, 70]
    report = mrq("report", "runs")
    assert "| gym/Pendulum-v1 | Tiny with rate=0.25 | 60 |" in report
    speed = mrq("speed", "--algorithm", "tiny", "--compile", "off", "--device", "cpu", "--steps", 2_000)
    head, measured = (line.split() for line in speed.splitlines()[-2:])
    assert "learn" in head
    assert measured[:2] == ["Pendulum-v1", "1"]


@pytest.mark.slow
def test_bench_and_report_have_its_variants(mrq, tmp_path):
    bench = ("bench", "gym", "--tasks", "Hopper-v4", "--algorithm", "tiny", "--variants", "all", "--seeds", 1, *SHORT)
    assert "runs: 2, to do: 2, already finished: 0" in mrq(*bench)
    assert "runs: 2, to do: 0, already finished: 2" in mrq(*bench)
    folders = [tmp_path / "runs" / label / "gym" / "Hopper-v4" / "seed-0" for label in ("Tiny", "slow-tiny")]
    for folder, rate in zip(folders, (0.02, 0.01), strict=True):
        found = RunFolder(folder)
        assert (found.title, found.settings.hyperparameters) == ("Tiny", tiny_algorithm.Hyperparameters(rate=rate))
        assert [row["step"] for row in rows(folder)] == ["0", "20", "40", "60"]
    report = mrq("report", "runs")
    assert "| Tiny |" in report
    assert "| slow-tiny |" in report


def test_a_task_that_it_cannot_learn_is_refused(tmp_path):
    command = cli.parse(["train", "CartPole-v1", "--algorithm", "tiny"])
    refusal = "Tiny cannot learn CartPole-v1, whose actions are discrete; give tasks that it can."
    for call in (command.run, lambda: MRQ("CartPole-v1", algorithm="tiny")):
        with pytest.raises(MRQError, match=refusal):
            call()
    assert not (tmp_path / "runs").exists()


def test_in_python(tmp_path):
    agent, straight = (MRQ("Pendulum-v1", algorithm="tiny", seed=3, task="a pendulum") for _ in range(2))
    straight.learn(60)
    agent.learn(40).save(tmp_path / "agent")
    loaded = MRQ.load(tmp_path / "agent", env="Pendulum-v1")
    assert (loaded.num_timesteps, loaded.task, RunFolder(tmp_path / "agent").title) == (40, "a pendulum", "Tiny")
    loaded.learn(20)
    ours, theirs = (each._population.state_of(0) for each in (loaded, straight))
    for state in (ours, theirs):
        del state.counters["seconds"]
    assert_equal(ours, theirs)
    observation = np.array([1.0, 0.0, 0.5], np.float32)
    action, state = loaded.predict(observation)
    own = loaded._population.learner.state_of(0)[0]["preferred"]
    assert 0.01 < abs(own.item()) < 0.99
    np.testing.assert_allclose(action, 2 * own.numpy(), rtol=1e-6)  # Pendulum's actions are twice as large
    np.testing.assert_allclose(loaded.predict(observation, state)[0], own.numpy(), rtol=1e-6)  # at its second step
    with pytest.raises(MRQError, match="another algorithm, task, environment, seed or hyperparameters"):
        MRQ("Pendulum-v1", algorithm="tiny", seed=3, task="another").save(tmp_path / "agent")
    with pytest.raises(MRQError, match="another algorithm, task, environment, seed or hyperparameters"):
        MRQ("Pendulum-v1", seed=3, task="a pendulum").save(tmp_path / "agent")


def test_each_agent_of_a_fleet_equals_its_seed_alone():
    makes = [lambda: gym.make("Pendulum-v1"), lambda: gym.make("MountainCarContinuous-v0")]
    together = fleet(makes, (3, 4), tiny_algorithm.Hyperparameters())
    advance(together, 50)
    for agent, make in enumerate(makes):
        alone = population(make, (3 + agent,), tiny_algorithm.Hyperparameters())
        advance(alone, 50)
        assert_equal(together.state_of(agent), alone.state_of(0))


def test_a_run_is_resumed_bit_for_bit(tmp_path):
    class Stopping(Recording):
        def step(self, steps, steps_per_second):
            super().step(steps, steps_per_second)
            return steps < 33

    settings = Settings(
        steps=60, evaluate_every=20, evaluation_episodes=2, workers=0, hyperparameters=tiny_algorithm.Hyperparameters()
    )
    identities = [Identity("Pendulum-v1", seed) for seed in (0, 1)]
    whole = start(identities, settings, tmp_path / "whole", Recording()).runs
    cut = start(identities, settings, tmp_path / "cut", Stopping()).runs
    recording = Recording()
    resume([found.path for found in cut], None, recording)
    assert "resuming at step 33 of 60" in recording.messages, "both together"
    for one, other in zip(cut, whole, strict=True):
        assert_same(one.path, other.path)


def test_a_run_of_an_algorithm_that_is_not_there_is_read_alone(monkeypatch, tmp_path):
    MRQ("Pendulum-v1", algorithm="tiny").learn(30, evaluate_every=30, run_folder=tmp_path / "run")
    monkeypatch.delitem(registry.ALGORITHMS, "tiny")
    found = RunFolder(tmp_path / "run")
    assert (found.title, found.label, len(found.evaluations())) == ("Tiny", "Tiny", 2)
    for call in (lambda: resume([found.path], 50, Recording()), lambda: MRQ.load(found.path)):
        with pytest.raises(
            MRQError, match="was trained with Tiny, an algorithm that this version of mrq does not have"
        ):
            call()
