"""Other libraries' algorithms train, are evaluated, recorded and resumed as MR.Q is."""

import csv
import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import stable_baselines3
from gymnasium.spaces import Box, Discrete
from matplotlib.axes import Axes

from mrq import MRQ, Hyperparameters, MRQError
from mrq.algorithms.registry import algorithm_named
from mrq.baselines import stable_learner
from mrq.environments.spaces import Translator
from mrq.interface import Identity
from mrq.randomness import environment_seed
from mrq.report.records import collect
from mrq.training.checkpoint import latest_checkpoint, read_arrays, read_counters, write_checkpoint
from mrq.training.evaluation import Evaluation
from mrq.training.listeners.evaluations_file import EvaluationsFile
from mrq.training.listeners.learning_curve import draw_learning_curve
from mrq.training.listeners.listener import Listener
from mrq.training.playing import play
from mrq.training.run_creation import create_run_folder
from mrq.training.run_folder import RunFolder
from mrq.training.runs import resume, start
from mrq.training.settings import Settings
from tests.baselines.scripted import Scripted
from tests.command_line import mrq, rows, steps_in
from tests.documents import document_of
from tests.environments_for_tests import Counting, Target
from tests.training.populations import advance, population
from tests.training.recording import Recording

HERE = "tests.environments_for_tests"
QUIET = Listener()


def settings(algorithm, **changes):
    h = algorithm_named(algorithm).hyperparameters()
    short = {"steps": 60, "evaluate_every": 20, "evaluation_episodes": 2, "device": "cpu"}
    return Settings(**short | changes, hyperparameters=h)


def trained(algorithm, task, root, seed=0, listener=QUIET, **changes):
    """Returns the folder of a short training."""
    (run,) = start([Identity(task, seed)], settings(algorithm, **changes), root, listener).runs
    return run.path


def evaluations(run):
    with (run / "evaluations.csv").open() as file:
        return [(int(row["step"]), float(row["return_mean"])) for row in csv.DictReader(file)]


@pytest.fixture
def scripted(monkeypatch):
    monkeypatch.setattr(stable_learner, "stable_baselines3", SimpleNamespace(PPO=Scripted))


def test_evaluations_come_when_they_should_and_mean_what_they_should(scripted, tmp_path):
    run = trained("ppo", "CartPole-v1", tmp_path)
    steps, returns = zip(*evaluations(run), strict=True)
    assert run == tmp_path / "CartPole-v1" / "seed-0"
    assert steps == (0, 20, 40, 60)
    assert all(8 <= value <= 11 for value in returns)  # pushed to one side, a pole falls in nine or ten steps
    document = document_of(run)
    assert (document["algorithm"], document["parameters"]) == ("PPO", 2)  # those of its one linear layer
    (record,) = collect([tmp_path], print)
    assert (record.algorithm, record.task, record.steps.tolist()) == ("PPO", "gym/CartPole-v1", [0, 20, 40, 60])


def test_an_interrupted_baseline_is_resumed_with_each_evaluation_once(scripted, tmp_path):
    class Interrupting(Listener):
        def step(self, steps, steps_per_second):
            if steps == 30:
                os.kill(os.getpid(), signal.SIGTERM)

    through = trained("ppo", "CartPole-v1", tmp_path / "through", seed=1)
    stopped = trained("ppo", "CartPole-v1", tmp_path / "stopped", seed=1, listener=Interrupting())
    assert [step for step, _ in evaluations(stopped)] == [0, 20]
    assert [folder.name for folder in (stopped / "checkpoints").iterdir()] == ["000001-step-30"]
    outcome = resume([stopped], None, QUIET, trust=True)
    assert (outcome.interrupted, outcome.runs[0].step) == (None, 60)
    assert evaluations(stopped) == evaluations(through)


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
    run = trained(algorithm, task, tmp_path)
    assert [step for step, _ in evaluations(run)] == [0, 20, 40, 60]
    document = document_of(run)
    assert document["algorithm"] == algorithm.upper()
    assert document["parameters"] > 1_000
    played = play(run, 3, False, None, "cpu", trust=True)
    assert len(played.returns) == 3
    assert play(run, 3, False, None, "cpu", trust=True) == played
    first, second = (MRQ.load(run, trust=True) for _ in range(2))
    assert first.num_timesteps == 60
    observation = np.zeros((2, *first.observation_space.shape), first.observation_space.dtype)
    actions, _ = first.predict(observation)
    np.testing.assert_array_equal(second.predict(observation)[0], actions)
    assert all(first.action_space.contains(action) for action in actions)
    resume([run], 90, QUIET, trust=True)
    assert [step for step, _ in evaluations(run)] == [0, 20, 40, 60, 80, 90]
    assert RunFolder(run).step == 90


class Choosing(Target):
    """Has a choice of three actions, of which two are allowed."""

    def __init__(self):
        super().__init__()
        self.action_space = Discrete(3)
        self.max_episode_steps = 1

    def reset(self, **kwargs):
        observation, _ = super().reset(**kwargs)
        return observation, {"action_mask": np.array([1, 0, 1], np.int8)}

    def step(self, action):
        return self.observation_space.sample(), 0.0, True, False, {}


def test_a_baseline_says_that_it_does_not_obey_masks(tmp_path, capsys):
    task = f"{__name__}:Choosing"
    sentence = "sees the masks of actions as part of the observation, but may take forbidden actions"
    recording = Recording()
    start([Identity(task, 0)], settings("ppo", steps=5), tmp_path, recording)
    assert recording.messages[0] == f"{task}: PPO {sentence}"
    MRQ(task, algorithm="dqn")
    assert f"{task}: DQN {sentence}" in capsys.readouterr().out
    MRQ(task)
    assert sentence not in capsys.readouterr().out


def test_each_agent_of_a_baseline_trains_alone(tmp_path):
    identities, recording = [Identity("Pendulum-v1", seed) for seed in (0, 1)], Recording()
    outcome = start(identities, settings("ppo"), tmp_path, recording)
    assert [run.seed for run in outcome.runs] == [0, 1]
    assert [training.identities for training in recording.all("training_begins")] == [[each] for each in identities]
    for run in outcome.runs:
        assert steps_in(run.path) == [0, 20, 40, 60]
    outcome = resume([run.path for run in outcome.runs], 70, QUIET, trust=True)
    assert [run.step for run in outcome.runs] == [70, 70]


def model_of(run):
    """Returns the library's model of a saved agent."""
    return MRQ.load(run, trust=True)._population.learner._model


def test_td3_resumes_with_its_replay(tmp_path):
    run = trained("td3", "Pendulum-v1", tmp_path)
    assert (model_of(run).replay_buffer.size(), model_of(run).num_timesteps) == (60, 60)


def test_the_library_stores_each_transition_once_with_its_own_next_state():
    h = algorithm_named("td3").hyperparameters()
    agents = population(lambda: Counting(lengths=(3, 2)), (0,), h, steps=60)
    advance(agents, 7)
    replay, counted = agents.learner._model.replay_buffer, slice(0, 6)  # the seventh is stored once its end is known
    # Counting shows (episode, step); its odd episodes are truncated, which is no end to the library.
    assert replay.observations[counted, 0].tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [2, 0]]
    assert replay.next_observations[counted, 0].tolist() == [[0, 1], [0, 2], [0, 3], [1, 1], [1, 2], [2, 1]]
    assert replay.rewards[counted, 0].tolist() == [0, 1, 2, 100, 101, 200]
    assert replay.dones[counted, 0].tolist() == [0, 0, 1, 0, 1, 0]
    assert replay.timeouts[counted, 0].tolist() == [0, 0, 0, 0, 1, 0]


def test_a_replay_grows_with_the_steps_asked_for(tmp_path):
    run = trained("td3", "Pendulum-v1", tmp_path)
    agent = MRQ.load(run, trust=True)
    agent._population.expect(90)
    held, larger = model_of(run).replay_buffer, agent._population.learner._model.replay_buffer
    assert (held.buffer_size, larger.buffer_size, larger.size()) == (60, 90, held.size())
    np.testing.assert_array_equal(larger.observations[:60], held.observations)
    held.add(*np.zeros((2, 1, 3)), np.zeros((1, 1)), np.ones(1), np.zeros(1), [{}])  # over the oldest
    held.add(*np.zeros((2, 1, 3)), np.zeros((1, 1)), np.full(1, 2.0), np.zeros(1), [{}])
    in_order = stable_learner.grown(held, 90)
    assert in_order.rewards[:60, 0].tolist() == [*larger.rewards[2:60, 0].tolist(), 1.0, 2.0]
    assert (in_order.pos, in_order.full) == (60, False)
    resume([run], 90, QUIET, trust=True)
    assert model_of(run).replay_buffer.size() == 90


@pytest.mark.parametrize("overlap", ["off", "on"])
@pytest.mark.parametrize("algorithm", ["ppo", "td3"])
def test_learning_may_continue_after_the_last_step(algorithm, overlap):
    agent = MRQ(Target, algorithm=algorithm, overlap=overlap)  # each of its steps ends an episode
    assert agent.learn(10).learn(10).num_timesteps == 20


def test_an_environment_that_fails_leaves_a_checkpoint(tmp_path):
    with pytest.raises(MRQError, match=r"nan_observation \(seed 0\) failed at step 29: the observation .* NaN"):
        trained("ppo", f"{HERE}:nan_observation", tmp_path)
    assert [path.name for path in tmp_path.rglob("000001-*")] == ["000001-step-29"]


def test_a_failing_agent_does_not_keep_the_next_ones_from_training(tmp_path):
    recording = Recording()
    tasks = [f"{HERE}:nan_observation", "CartPole-v1"]
    outcome = start([Identity(task, 0) for task in tasks], settings("ppo"), tmp_path, recording)
    broken, finished = outcome.runs
    assert (broken.step, finished.step) == (29, 60)
    assert outcome.failed == [broken]
    assert any("failed at step 29" in text for text in recording.messages)


def test_agents_that_an_interruption_keeps_from_starting_are_named(tmp_path):
    class Interrupting(Recording):
        def step(self, steps, steps_per_second):
            if steps == 30:
                os.kill(os.getpid(), signal.SIGTERM)

    recording = Interrupting()
    outcome = start([Identity("CartPole-v1", seed) for seed in range(2)], settings("ppo"), tmp_path, recording)
    assert [run.seed for run in outcome.runs] == [0]
    assert (outcome.interrupted, outcome.all_begun) == (signal.SIGTERM, False)
    assert "CartPole-v1 (seed 1): not started; give the command again for it" in recording.messages


@pytest.mark.slow
def test_python_ends_in_good_order_after_a_training():
    code = "from mrq import MRQ; MRQ('Pendulum-v1', algorithm='ppo').learn(150)"
    for _ in range(3):  # its thread once ended with the process in one of three cases
        subprocess.run([sys.executable, "-c", code], check=True)


def test_the_curve_of_a_baseline_marks_no_random_steps(tmp_path, monkeypatch):
    marked = []
    monkeypatch.setattr(Axes, "axvline", lambda *arguments, **options: marked.append(arguments))
    for h in (algorithm_named("ppo").hyperparameters(), Hyperparameters()):
        long = Settings(steps=20_000, evaluate_every=20_000, hyperparameters=h)
        path = tmp_path / long.algorithm.title
        run = create_run_folder(path, Identity("CartPole-v1", 0), long, compiled=False, spaces={}, parameters=1)
        EvaluationsFile([run]).evaluation(20_000, {0: Evaluation([1.0], [1])}, np.ones(1))
        draw_learning_curve(run)
        assert len(marked) == (long.algorithm.title == "MR.Q")
        run.close()


def test_a_damaged_checkpoint_is_reported_and_kept(tmp_path):
    run = trained("ppo", "Pendulum-v1", tmp_path)
    file = latest_checkpoint(run / "checkpoints") / "learner.safetensors"
    file.write_bytes(b"nothing")
    with pytest.raises(MRQError, match=r"000001-step-60 is damaged: learner.safetensors is .* changed since it was"):
        resume([run], 70, QUIET, trust=True)
    assert file.read_bytes() == b"nothing"


def test_a_checkpoint_that_the_library_cannot_read_is_reported_and_kept(tmp_path):
    run = trained("ppo", "Pendulum-v1", tmp_path)
    saved = latest_checkpoint(run / "checkpoints")
    nothing = {"model": np.zeros(10, np.uint8)}
    write_checkpoint(run / "checkpoints", nothing, read_arrays(saved), read_counters(saved))
    for call in (
        lambda: resume([run], 70, QUIET, trust=True),
        lambda: play(run, 1, True, None, "cpu", trust=True),
        lambda: MRQ.load(run, trust=True),
    ):
        with pytest.raises(MRQError, match=r"cannot read the checkpoint of Pendulum-v1 \(seed 0\) \(.*\); install the"):
            call()
    assert latest_checkpoint(run / "checkpoints").name == "000002-step-60"


def test_what_a_baseline_cannot_do_is_said(tmp_path):
    with pytest.raises(MRQError, match="DQN cannot learn Pendulum-v1, whose actions are continuous"):
        trained("dqn", "Pendulum-v1", tmp_path)
    with pytest.raises(MRQError, match="TD3 cannot learn CartPole-v1, whose actions are discrete"):
        MRQ("CartPole-v1", algorithm="td3")
    with pytest.raises(MRQError, match="there is no algorithm 'a2c'; there are mrq, drqv2, ppo, td3, sac, dqn"):
        algorithm_named("a2c")
    assert list(tmp_path.iterdir()) == []


def test_a_baseline_of_version_0_1_is_read_but_not_trained_or_played(tmp_path):
    """Version 0.1 kept the library's own files in a checkpoint, and the seconds beside them."""
    run = trained("td3", "Pendulum-v1", tmp_path)
    saved = latest_checkpoint(run / "checkpoints")
    for file in saved.iterdir():
        file.unlink()
    for name in ("model.zip", "replay.pkl", "seconds.json"):
        (saved / name).write_text("1.0")
    document = document_of(run)
    del document["settings"]["hyperparameters"]  # those of MR.Q were not written, and a baseline had none
    (run / "run.json").write_text(json.dumps(document))
    refusal = "was trained by a version of mrq before 0.2, which saved TD3 in another way; reports still read it, but"
    for call in (
        lambda: resume([run], 70, QUIET, trust=True),
        lambda: play(run, 1, True, None, "cpu", trust=True),
        lambda: MRQ.load(run, trust=True),
    ):
        with pytest.raises(MRQError, match=refusal):
            call()
    assert len(RunFolder(run).evaluations()) == 4
    (record,) = collect([tmp_path], print)
    assert (record.algorithm, record.steps.tolist()) == ("TD3", [0, 20, 40, 60])


@pytest.mark.slow
def test_the_commands_train_play_and_resume_a_baseline(tmp_path):
    arguments = ("--steps", 30, "--evaluate-every", 20, "--evaluation-episodes", 1, "--overlap", "on")
    code, out, err = mrq("train", "Pendulum-v1", "--algorithm", "td3", *arguments, cwd=tmp_path)
    assert code == 0, err
    assert "replay" not in out, "the library has its own"
    code, out, err = mrq("evaluate", "runs/Pendulum-v1/seed-0", "--episodes", 1, "--trust", cwd=tmp_path)
    assert (code, "(episodes: 1)" in out) == (0, True), err
    code, out, err = mrq("resume", "runs/Pendulum-v1/seed-0", "--steps", 50, "--trust", cwd=tmp_path)
    assert (code, "resuming at step 30 of 50" in out) == (0, True), err
    assert [row["step"] for row in rows(tmp_path / "runs" / "Pendulum-v1" / "seed-0")] == ["0", "20", "30", "40", "50"]


class Alone(Target):
    """Target as an agent of seed 0 sees it."""

    def __init__(self):
        super().__init__()
        self.translator, self.episodes = Translator(self.observation_space, self.action_space), 0
        self.observation_space, self.action_space = Box(-np.inf, np.inf, (1,)), Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=environment_seed(0, self.episodes))
        self.episodes += 1
        return observation.astype(np.float32), info

    def step(self, action):
        observation, *rest = super().step(self.translator.action(action))
        return observation.astype(np.float32), *rest


# PPO learns from every 2,048 steps. SAC learns from a step that ended an episode once the next one begins.
@pytest.mark.parametrize(("algorithm", "steps", "learned"), [("ppo", 2_100, 2_048), ("sac", 160, 159)])
@pytest.mark.slow
def test_an_agent_learns_what_the_library_learns_alone(algorithm, steps, learned):
    def weights(model):
        return {name: tensor.clone() for name, tensor in model.get_parameters()["policy"].items()}

    agent = MRQ(Target, algorithm=algorithm, device="cpu")
    first = weights(agent._population.learner._model)
    agent.learn(steps, evaluate_every=steps // 3)
    ours = weights(agent._population.learner._model)
    alone = getattr(stable_baselines3, algorithm.upper())("MlpPolicy", Alone(), seed=0, device="cpu").learn(learned)
    theirs = weights(alone)
    assert ours.keys() == theirs.keys() == first.keys()
    assert all(tensor.equal(theirs[name]) for name, tensor in ours.items())
    assert not all(tensor.equal(first[name]) for name, tensor in ours.items())
