"""Listeners are told what happens in a training: all of it, in order, and once."""

import csv
import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from mrq import MRQ, MRQError
from mrq.environments.environments import EnvironmentFault
from mrq.interface import Identity
from mrq.training.episodes import Episode
from mrq.training.evaluation import Evaluation
from mrq.training.listeners.listener import Listener
from mrq.training.listeners.progress_bar import ProgressBar
from mrq.training.runs import resume, start
from mrq.training.settings import Settings
from tests.command_line import rows
from tests.environments_for_tests import Counting
from tests.training.recording import Recording

COUNTING, NAN = (f"tests.environments_for_tests:{name}" for name in ("Counting", "nan_observation"))


@pytest.fixture
def settings(small):
    return Settings(steps=75, evaluate_every=50, evaluation_episodes=1, workers=0, device="cpu", hyperparameters=small)


def test_events_and_their_order(settings, tmp_path):
    recording, identities = Recording(), [Identity(COUNTING, seed) for seed in (0, 1)]
    start(identities, settings, tmp_path, recording)
    (training,) = recording.all("training_begins")
    assert training.identities == identities
    assert (training.steps, training.total_steps, training.random_steps) == (0, 75, 50)
    assert training.returns == [[], []]
    assert [steps for steps, _ in recording.all("step")] == list(range(1, 76))
    others = [(name, *arguments[:1]) for name, *arguments in recording.events if name not in ("step", "message")]
    # Counting's episodes take 7, 3 and 12 steps, then 7 again.
    assert others == [
        ("training_begins", recording.all("training_begins")[0]),
        ("evaluation", 0),
        *(("episodes_end", steps) for steps in (7, 10, 22, 29, 32, 44)),
        ("evaluation", 50),
        ("episodes_end", 51),
        ("episodes_end", 54),
        ("episodes_end", 66),
        ("metrics", 70),  # the end of a period of 20 steps
        ("episodes_end", 73),
        ("evaluation", 75),
        ("checkpoint", 75),
        ("checkpoint", 75),
        ("training_ends", 75),
    ]
    replay, begins = recording.messages
    assert replay.startswith("replay of up to 150 observations per agent: ")
    assert begins == "step 50: random steps are over, learning begins"
    names = [name for name, *_ in recording.events]
    assert names[:4] == ["message", "training_begins", "evaluation", "step"]
    at = recording.events.index(("message", begins))
    assert recording.events[at + 1][:2] == ("step", 50)


def test_what_events_tell(settings, tmp_path):
    recording = Recording()
    start([Identity(COUNTING, seed) for seed in (0, 1)], settings, tmp_path, recording)
    # Episode e of T steps returns 100 * e * T + 0 + 1 + ... + (T - 1).
    returns = {7: 0 + 21, 10: 300 + 3, 22: 2_400 + 66}
    for (steps, episodes), length in zip(recording.all("episodes_end"), (7, 3, 12), strict=False):
        assert episodes == {agent: [Episode(returns[steps], length)] for agent in (0, 1)}
    for number, (_, evaluations, seconds) in enumerate(recording.all("evaluation")):
        length, episode = (7, 3, 12)[number], number
        total = 100.0 * episode * length + length * (length - 1) / 2
        assert evaluations == dict.fromkeys((0, 1), Evaluation([total], [length]))
        assert seconds.shape == (2,)
        assert (seconds >= 0).all()
    ((_, metrics, pace),) = recording.all("metrics")
    assert list(metrics) == [0, 1]
    for values in metrics.values():
        assert {"dynamics_loss", "value_loss", "policy_loss", "reward_scale"} <= values.keys()
        assert all(type(value) is float and np.isfinite(value) for value in values.values())
    assert metrics[0] != metrics[1]
    assert pace > 0
    assert recording.all("checkpoint") == [(75, 0), (75, 1)]
    assert all(pace >= 0 for _, pace in recording.all("step"))


class Stopping(Recording):
    """Stops the training at a step, or at an event of another name."""

    def __init__(self, at=None, event="step"):
        super().__init__()
        self.at, self.event = at, event

    def __str__(self):
        return "it has seen enough"

    def step(self, steps, steps_per_second):
        super().step(steps, steps_per_second)
        return not (self.event == "step" and steps == self.at)

    def evaluation(self, steps, evaluations, seconds):
        super().evaluation(steps, evaluations, seconds)
        return self.event != "evaluation"

    def episodes_end(self, steps, episodes):
        super().episodes_end(steps, episodes)
        return self.event != "episodes_end"

    def metrics(self, steps, metrics, steps_per_second):
        super().metrics(steps, metrics, steps_per_second)
        return self.event != "metrics"


def test_a_listener_stops_the_training_by_returning_false(settings, tmp_path):
    recording = Stopping(30)
    outcome = start([Identity(COUNTING, 0)], settings, tmp_path, recording)
    assert [steps for steps, _ in recording.all("step")] == list(range(1, 31))
    stopped = ("message", "stopped at step 30: it has seen enough")
    assert recording.events[-3:] == [("checkpoint", 30, 0), stopped, ("training_ends", 30)]
    assert (outcome.interrupted, outcome.runs[0].step, outcome.runs[0].unfinished) == (None, 30, True)
    resumed = Recording()
    resume([outcome.runs[0].path], None, resumed, trust=True)
    (training,) = resumed.all("training_begins")
    assert (training.steps, training.total_steps) == (30, 75)
    assert [steps for steps, _ in resumed.all("step")] == list(range(31, 76))
    assert [steps for steps, *_ in resumed.all("evaluation")] == [50, 75]


@pytest.mark.parametrize(("event", "step"), [("evaluation", 0), ("episodes_end", 7), ("metrics", 70)])
def test_every_event_of_the_loop_can_stop_the_training(event, step, settings, small, tmp_path):
    recording = Stopping(event=event)
    start([Identity(COUNTING, 0)], replace(settings, hyperparameters=small), tmp_path, recording)
    assert recording.events[-1] == ("training_ends", step)


def test_a_listener_may_stop_the_training_before_it_begins(settings, tmp_path):
    class Full(Recording):
        def training_begins(self, training):
            return False

    recording = Full()
    (run,) = start([Identity(COUNTING, 0)], settings, tmp_path, recording).runs
    assert (run.step, run.unfinished, recording.all("step")) == (0, True, [])


def test_a_signal_ends_the_training_with_a_checkpoint(settings, tmp_path):
    class Interrupting(Recording):
        def step(self, steps, steps_per_second):
            super().step(steps, steps_per_second)
            if steps == 55:
                os.kill(os.getpid(), signal.SIGINT)

    recording = Interrupting()
    outcome = start([Identity(COUNTING, 0)], settings, tmp_path, recording)
    assert outcome.interrupted == signal.SIGINT
    assert recording.events[-3:] == [
        ("checkpoint", 55, 0),
        ("training_ends", 55),
        ("message", "interrupted at step 55"),
    ]


def test_an_agent_that_fails_is_told_and_the_others_continue(settings, tmp_path):
    recording = Recording()
    outcome = start([Identity(COUNTING, 0), Identity(NAN, 0)], settings, tmp_path, recording)
    ((agent, fault),) = recording.all("agent_fails")
    assert (agent, type(fault)) == (1, EnvironmentFault)
    assert f"the environment of {NAN} (seed 0) failed at step 29: the observation contains NaN" in str(fault)
    at = recording.events.index(("agent_fails", agent, fault))
    assert recording.events[at - 1] == ("checkpoint", 29, 1), "what it learned is saved before it is told"
    assert recording.events[at + 1] == ("message", f"{fault} The other agents continue.")
    assert [list(evaluations) for _, evaluations, _ in recording.all("evaluation")] == [[0, 1], [0], [0]]
    assert all(list(episodes) == [0] for steps, episodes in recording.all("episodes_end") if steps > 29)
    assert [list(metrics) for _, metrics, _ in recording.all("metrics")] == [[0]]
    assert recording.all("checkpoint") == [(29, 1), (75, 0)]
    assert [run.task for run in outcome.failed] == [NAN]


def test_training_ends_is_told_when_the_only_agent_fails(settings, tmp_path):
    recording = Recording()
    with pytest.raises(MRQError, match="failed at step 29"):
        start([Identity(NAN, 0)], settings, tmp_path, recording)
    assert recording.events[-2:] == [("checkpoint", 29, 0), ("training_ends", 29)]
    assert not recording.all("agent_fails"), "the error says it"


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
@pytest.mark.parametrize("event", ["step", "evaluation", "metrics", "episodes_end", "checkpoint"])
def test_training_ends_is_told_whatever_error_is_raised(event, error, settings, tmp_path):
    def fail(*_):
        raise error

    recording = type("Raising", (Recording,), {event: fail})()
    with pytest.raises(error):
        start([Identity(COUNTING, 0)], settings, tmp_path, recording)
    assert len(recording.all("training_ends")) == 1
    assert recording.events[-1][0] == "training_ends"


class BestReturns(Listener):
    """Writes the best return of each agent to a file."""

    def __init__(self, path):
        self.path, self.best = path, {}

    def evaluation(self, steps, evaluations, seconds):
        for agent, evaluation in evaluations.items():
            self.best[agent] = max(evaluation.mean, self.best.get(agent, evaluation.mean))
        self.path.write_text(str(self.best))


def test_adding_a_listener_takes_one_class(settings, tmp_path):
    path = tmp_path / "best.txt"
    start([Identity(COUNTING, 0)], settings, tmp_path / "runs", BestReturns(path))
    assert path.read_text() == "{0: 2466.0}"  # that of the third evaluation's episode


def test_files_are_written_before_other_listeners_are_told(settings, tmp_path):
    told = []

    class Reading(Listener):
        def evaluation(self, steps, evaluations, seconds):
            told.append((steps, [int(row["step"]) for row in rows(folder)]))

        def checkpoint(self, steps, agent):
            told.append((steps, (folder / "learning_curve.png").exists()))

    folder = tmp_path / "tests.environments_for_tests-Counting" / "seed-0"
    start([Identity(COUNTING, 0)], settings, tmp_path, Reading())
    assert told == [(0, [0]), (50, [0, 50]), (75, [0, 50, 75]), (75, True)]


def test_the_evaluations_file_by_arithmetic(settings, tmp_path):
    (run,) = start([Identity(COUNTING, 3)], replace(settings, evaluation_episodes=2), tmp_path, Listener()).runs
    with (run.path / "evaluations.csv").open() as file:
        lines = list(csv.reader(file))
    assert lines[0] == ["task", "seed", "step", "return_mean", "return_std", "length_mean", "episodes", "seconds"]
    # Two environments play an episode each: 7 steps, then 3, then 12.
    expected = [(0, 21, 7), (50, 303, 3), (75, 2_466, 12)]
    assert [line[:-1] for line in lines[1:]] == [
        [COUNTING, "3", str(step), str(mean), "0", str(length), "2"] for step, mean, length in expected
    ]


def test_tensorboard_by_arithmetic(settings, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (run,) = start([Identity(COUNTING, 0)], settings, tmp_path, Listener()).runs
    events = EventAccumulator(str(run.path / "tensorboard"))
    events.Reload()

    def scalars(name):
        return [(event.step, event.value) for event in events.Scalars(name)]

    assert scalars("training/episode_return")[:3] == [(7, 21), (10, 303), (22, 2_466)]
    assert scalars("evaluation/return") == [(0, 21), (50, 303), (75, 2_466)]
    assert scalars("evaluation/length") == [(0, 7), (50, 3), (75, 12)]
    assert [step for step, _ in scalars("learning/value_loss")] == [70]
    assert [step for step, _ in scalars("speed/steps_per_second")] == [70]


def test_the_progress_bar_prints_lines_where_there_is_no_terminal(settings, tmp_path, capsys):
    tasks = (COUNTING, "tests.environments_for_tests:Process")
    identities = [Identity(task, seed) for task in tasks for seed in (0, 1)]
    start(identities, replace(settings, steps=20, evaluate_every=20), tmp_path, ProgressBar())
    replay, note, *lines = capsys.readouterr().out.splitlines()
    assert replay.startswith("replay of up to 100 observations per agent")
    assert note == "note: the first 50 steps are random, so nothing will be learned"
    assert lines == [
        f"step {steps}: {task}: return {mean} ± 0.0 (seed 0), {mean} ± 0.0 (seed 1)"
        for steps, mean in ((0, "21.0"), (20, "303.0"))
        for task in tasks
    ]


def test_a_callback_in_python_is_a_listener(small):
    agent, seen = MRQ(Counting, hyperparameters=small), []
    agent.learn(100, callback=lambda agent: seen.append(agent.num_timesteps) or agent.num_timesteps < 12)
    assert seen == list(range(1, 13))
    assert agent.num_timesteps == 12


@pytest.mark.parametrize("answer", [None, True, 0, 0.0])
def test_nothing_but_false_stops_the_training(answer, small):
    agent = MRQ(Counting, hyperparameters=small)
    assert agent.learn(5, callback=lambda agent: answer).num_timesteps == 5
