"""What a fleet's process tells the process that shows it."""

import numpy as np
import pytest

from mrq.benchmark import progress
from mrq.benchmark.progress import Progress, ProgressSender
from mrq.interface import Identity
from mrq.training.evaluation import Evaluation
from mrq.training.listeners.listener import Training

FIRST, SECOND = Identity("Hopper-v4", 0), Identity("Hopper-v4", 1)


@pytest.fixture
def clock(monkeypatch):
    """The time in seconds; tests set its only entry."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_progress_is_sent_at_the_beginning_every_second_and_at_evaluations(clock):
    sent = []
    sender = ProgressSender(sent.append)
    sender.training_begins(Training([FIRST, SECOND], 10, 100, 12, [[], []], None))
    clock[0] = 0.9
    sender.step(11, 50.0)
    assert sent == [Progress(10, 0.0, {}, None)]
    clock[0] = 1.0
    sender.step(12, 50.0)  # the last random step, whose pace says nothing
    clock[0] = 1.5
    sender.step(13, 2.0)
    sender.evaluation(13, {0: Evaluation([1.0, 2.0], [5, 5]), 1: Evaluation([-3.0], [4])}, np.zeros(2))
    clock[0] = 2.4
    sender.step(14, 2.5)
    sender.message("a sentence")
    clock[0] = 2.5
    sender.step(15, 3.0)
    returns = {FIRST: 1.5, SECOND: -3.0}
    assert sent[1:] == [
        Progress(12, 0.0, {}, None),
        Progress(13, 2.0, returns, 13),
        "a sentence",
        Progress(15, 3.0, returns, 13),
    ]


def test_another_training_begins_without_returns(clock):
    sent = []
    sender = ProgressSender(sent.append)
    sender.training_begins(Training([FIRST], 0, 100, 0, [[]], None))
    sender.evaluation(0, {0: Evaluation([1.0], [5])}, np.zeros(1))
    sender.training_begins(Training([SECOND], 50, 100, 0, [[]], None))
    assert sent[-1] == Progress(50, 0.0, {}, None)
