"""What the process that trains a fleet tells the process that shows it."""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from mrq.interface import Array, Identity
from mrq.training.evaluation import Evaluation
from mrq.training.listeners.listener import Listener, Training

PERIOD_SECONDS = 1.0  # between two reports


class Progress(NamedTuple):
    """How far a fleet is."""

    steps: int
    steps_per_second: float  # of each agent; 0 while it is unknown
    returns: Mapping[Identity, float]  # the latest evaluations
    evaluated_at: int | None  # the step of these


class ProgressSender(Listener):
    """Sends how far a training is when it begins, every second and at evaluations; and every message, as it is."""

    def __init__(self, send: Callable[[Progress | str], None]) -> None:
        self._send = send

    def training_begins(self, training: Training) -> None:
        self._training = training
        self._progress = Progress(training.steps, 0.0, {}, None)
        self._send_progress()

    def step(self, steps: int, steps_per_second: float) -> None:
        learning = steps > self._training.random_steps  # random steps are fast and say nothing about the time left
        self._progress = self._progress._replace(steps=steps, steps_per_second=steps_per_second if learning else 0.0)
        if time.monotonic() >= self._due:
            self._send_progress()

    def evaluation(self, steps: int, evaluations: Mapping[int, Evaluation], seconds: Array) -> None:
        returns = {self._training.identities[agent]: evaluation.mean for agent, evaluation in evaluations.items()}
        self._progress = self._progress._replace(returns=returns, evaluated_at=steps)
        self._send_progress()

    def message(self, text: str) -> None:
        self._send(text)

    def _send_progress(self) -> None:
        self._due = time.monotonic() + PERIOD_SECONDS
        self._send(self._progress)
