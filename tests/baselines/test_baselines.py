"""Baselines train, are evaluated, recorded and gone on with as MR.Q is."""

import csv
import json
import os
import signal

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes

from mrq import MRQ, MRQError
from mrq.baselines import stable_baselines
from mrq.baselines.baseline import Beginning
from mrq.baselines.environment import PlainEnvironment
from mrq.baselines.kinds import KINDS, kind_of
from mrq.baselines.training import train_baseline
from mrq.interface import Agent
from mrq.report.records import collect
from mrq.training.evaluation import Evaluation
from mrq.training.learning_curve import draw_learning_curve
from mrq.training.playing import play
from mrq.training.run_folder import create_run_folder
from mrq.training.settings import Settings
from tests.baselines.toy import CONSTANT

HERE = "tests.environments_for_tests"
SHORT = Settings(steps=60, evaluate_every=20, evaluation_episodes=2, device="cpu")


def evaluations(run):
    with (run / "evaluations.csv").open() as file:
        return [(int(row["step"]), float(row["return_mean"])) for row in csv.DictReader(file)]


def test_a_plain_environment_stacks_images_and_numbers_actions():
    environment = PlainEnvironment(f"{HERE}:Pixels")
    state, _ = environment.reset(seed=0)
    assert (state.shape, state.dtype, environment.action_space.n) == ((4, 84, 84), np.uint8, 2)
    place = state[0, 0].argmax() // 8
    assert (state == state[0]).all()  # an episode's first frame, four times
    after, reward, terminated, truncated, _ = environment.step(1)
    assert [row.argmax() // 8 for row in after[:, 0]] == [place, place, place, place + 1]
    assert (reward, terminated, truncated) == (0.0, False, False)


def test_a_plain_environment_rescales_actions_and_keeps_its_seed():
    first, second = (PlainEnvironment(f"{HERE}:Target") for _ in range(2))
    goals = [first.reset(seed=3)[0][0], second.reset(seed=3)[0][0], first.reset()[0][0], second.reset()[0][0]]
    assert goals[0] == goals[1] != goals[2] == goals[3]
    _, reward, terminated, _, _ = first.step(np.array([-0.4], np.float32))  # the environment's 3, its -0.4
    assert (reward, terminated) == (pytest.approx(-abs(-0.4 - goals[2]), abs=1e-6), True)


def test_evaluations_come_when_they_should_and_mean_what_they_should(tmp_path):
    agent = Agent("CartPole-v1", 0)
    train_baseline(CONSTANT, agent, SHORT, tmp_path)
    run = tmp_path / "CartPole-v1" / "seed-0"
    steps, returns = zip(*evaluations(run), strict=True)
    assert steps == (0, 20, 40, 60)
    assert all(8 <= value <= 11 for value in returns)  # pushed to one side, a pole falls in nine or ten steps
    assert json.loads((run / "run.json").read_text())["algorithm"] == "constant"
    (record,) = collect([tmp_path], print)
    assert (record.algorithm, record.task, record.steps.tolist()) == ("constant", "gym/CartPole-v1", [0, 20, 40, 60])


def test_an_interrupted_baseline_goes_on_with_each_evaluation_once(tmp_path):
    agent, through = Agent("CartPole-v1", 1), tmp_path / "through"
    train_baseline(CONSTANT, agent, SHORT, through)

    class Interrupted(CONSTANT.make):
        def learn(self, total_steps, on_step):
            def interrupting():
                if self.steps == 30:
                    os.kill(os.getpid(), signal.SIGTERM)
                return on_step()

            super().learn(total_steps, interrupting)

    stopped = tmp_path / "stopped"
    train_baseline(CONSTANT._replace(make=Interrupted), agent, SHORT, stopped)
    run = stopped / "CartPole-v1" / "seed-1"
    assert [step for step, _ in evaluations(run)] == [0, 20]
    assert [folder.name for folder in (run / "checkpoints").iterdir()] == ["000001-step-30"]
    train_baseline(CONSTANT, agent, SHORT, stopped)
    assert evaluations(run) == evaluations(through / "CartPole-v1" / "seed-1")


@pytest.mark.parametrize(
    ("algorithm", "task"),
    [
        ("ppo", "Pendulum-v1"),
        ("td3", "Pendulum-v1"),
        ("sac", f"{HERE}:Target"),
        ("dqn", f"{HERE}:Pixels"),
        ("ppo", f"{HERE}:Pixels"),
    ],
)
def test_stable_baselines(algorithm, task, tmp_path):
    agent, kind = Agent(task, 0), kind_of(algorithm)
    train_baseline(kind, agent, SHORT, tmp_path)
    (run,) = (path.parent for path in tmp_path.rglob("run.json"))
    assert [step for step, _ in evaluations(run)] == [0, 20, 40, 60]
    assert json.loads((run / "run.json").read_text())["parameters"] > 1_000
    (saved,) = (run / "checkpoints").iterdir()
    environment = PlainEnvironment(task)
    loaded = kind.make(Beginning(environment, 0, 90, torch.device("cpu"), saved))
    assert loaded.steps == 60
    state, _ = environment.reset(seed=0)
    again = kind.make(Beginning(environment, 0, 90, torch.device("cpu"), saved))
    np.testing.assert_array_equal(loaded.act(state[None]), again.act(state[None]))
    more = Settings(steps=90, evaluate_every=20, evaluation_episodes=2, device="cpu")
    train_baseline(kind, agent, more, tmp_path)
    assert [step for step, _ in evaluations(run)] == [0, 20, 40, 60, 80, 90]


def test_td3_goes_on_with_its_replay(tmp_path):
    agent = Agent("Pendulum-v1", 0)
    train_baseline(KINDS["td3"], agent, SHORT, tmp_path)
    (saved,) = (tmp_path / "Pendulum-v1" / "seed-0" / "checkpoints").iterdir()
    loaded = KINDS["td3"].make(Beginning(PlainEnvironment("Pendulum-v1"), 0, 90, torch.device("cpu"), saved))
    assert loaded._model.replay_buffer.size() == 59  # it takes up a step after it has asked whether to go on


def test_a_replay_grows_with_the_steps_asked_for(tmp_path):
    agent = Agent("Pendulum-v1", 0)
    train_baseline(KINDS["td3"], agent, SHORT, tmp_path)
    (saved,) = (tmp_path / "Pendulum-v1" / "seed-0" / "checkpoints").iterdir()
    small, large = (
        KINDS["td3"].make(Beginning(PlainEnvironment("Pendulum-v1"), 0, steps, torch.device("cpu"), saved))
        for steps in (60, 90)
    )
    held, grown = small._model.replay_buffer, large._model.replay_buffer
    assert (held.buffer_size, grown.buffer_size, grown.size()) == (60, 90, held.size())
    np.testing.assert_array_equal(grown.observations[:59], held.observations[:59])
    held.add(*np.zeros((2, 1, 3)), np.zeros((1, 1)), np.ones(1), np.zeros(1), [{}])
    held.add(*np.zeros((2, 1, 3)), np.zeros((1, 1)), np.full(1, 2.0), np.zeros(1), [{}])  # over the oldest
    in_order = stable_baselines._grown(held, 90)
    assert in_order.rewards[:60, 0].tolist() == [*grown.rewards[1:59, 0].tolist(), 1.0, 2.0]
    assert (in_order.pos, in_order.full) == (60, False)


def test_an_environment_that_fails_leaves_a_checkpoint(tmp_path):
    with pytest.raises(MRQError, match=r"nan_observation \(seed 0\) failed at step 29: the observation .* NaN"):
        train_baseline(KINDS["ppo"], Agent(f"{HERE}:nan_observation", 0), SHORT, tmp_path)
    assert [path.name for path in tmp_path.rglob("000001-*")] == ["000001-step-29"]


def test_the_curve_of_a_baseline_marks_no_random_steps(tmp_path, monkeypatch):
    marked, settings = [], Settings(steps=20_000, evaluate_every=20_000)
    monkeypatch.setattr(Axes, "axvline", lambda *arguments, **options: marked.append(arguments))
    for algorithm in ("PPO", "MR.Q"):
        run = create_run_folder(tmp_path / algorithm, "CartPole-v1", 0, settings, False, {}, 1, algorithm)
        run.record_evaluation(20_000, Evaluation([1.0], [1]), 1.0)
        draw_learning_curve(run)
        assert len(marked) == (algorithm == "MR.Q")
        run.close()


def test_a_damaged_checkpoint_is_said_and_kept(tmp_path):
    agent = Agent("Pendulum-v1", 0)
    train_baseline(KINDS["ppo"], agent, SHORT, tmp_path)
    (saved,) = (tmp_path / "Pendulum-v1" / "seed-0" / "checkpoints").iterdir()
    (saved / "model.zip").write_bytes(b"nothing")
    with pytest.raises(MRQError, match=r"000001-step-60 cannot be read \(.*\); without it the run begins anew"):
        train_baseline(KINDS["ppo"], agent, SHORT, tmp_path)
    assert (saved / "model.zip").read_bytes() == b"nothing"
    with pytest.raises(MRQError, match="is one of PPO, not of TD3; choose other --runs"):
        train_baseline(KINDS["td3"], agent, SHORT, tmp_path)


def test_what_a_baseline_cannot_do_is_said(tmp_path):
    with pytest.raises(MRQError, match="DQN cannot learn Pendulum-v1, whose actions are continuous"):
        train_baseline(KINDS["dqn"], Agent("Pendulum-v1", 0), SHORT, tmp_path)
    with pytest.raises(MRQError, match="there is no algorithm 'a2c'; there are mrq, ppo, td3, sac, dqn"):
        kind_of("a2c")
    train_baseline(CONSTANT, Agent("CartPole-v1", 0), SHORT, tmp_path)
    run = tmp_path / "CartPole-v1" / "seed-0"
    for call in (lambda: play(run, 1, True, None, "cpu"), lambda: MRQ.load(run)):
        with pytest.raises(MRQError, match="is one of constant, which `mrq bench --algorithm` goes on with"):
            call()
