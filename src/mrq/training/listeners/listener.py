"""The events of a training, and who is told of them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mrq.algorithms.algorithm import Learner
from mrq.errors import MRQError, one_line
from mrq.interface import Array, Identity
from mrq.training.episodes import Episode
from mrq.training.evaluation import Evaluation


@dataclass(frozen=True)
class Training:
    """What a training is going to do, and with whom."""

    identities: Sequence[Identity]  # of its agents, in the order by which events number them
    steps: int  # taken so far
    total_steps: int
    random_steps: int  # before learning begins
    returns: Sequence[Sequence[float]]  # of earlier evaluations, by agent
    learner: Learner


class Listener:
    """Is told what happens in a training; override the events that matter. Agents are numbered from 0.

    Every event that returns something may return False, which stops the training, with a checkpoint.
    """

    needs_evaluations: ClassVar[bool] = False  # it does nothing without them

    def __str__(self) -> str:
        """Returns what messages call it, or why it stops the training."""
        return type(self).__name__

    def training_begins(self, training: Training) -> bool | None:
        """Training begins, or resumes."""

    def step(self, steps: int, steps_per_second: float) -> bool | None:
        """Every agent took a step; the pace is 0 while it is unknown."""

    def episodes_end(self, steps: int, episodes: Mapping[int, Sequence[Episode]]) -> bool | None:
        """Training episodes ended, by agent."""

    def metrics(self, steps: int, metrics: Mapping[int, Mapping[str, float]], steps_per_second: float) -> bool | None:
        """A period is over; its latest losses and values by agent and name."""

    def evaluation(self, steps: int, evaluations: Mapping[int, Evaluation], seconds: Array) -> bool | None:
        """Agents were evaluated; `seconds` (agents,) is how long training took before it."""

    def checkpoint(self, steps: int, agent: int) -> bool | None:
        """A checkpoint of an agent was written."""

    def message(self, text: str) -> None:
        """There is something to tell the user."""

    def agent_fails(self, agent: int, fault: MRQError) -> None:
        """An agent cannot continue; the others do."""

    def training_ends(self, steps: int) -> None:
        """Training is over, for whatever reason; close what is open."""


class CallbackFault(MRQError):
    """A user's callback failed."""


class Listeners(Listener):
    """Several listeners, told one after the other: mrq's own, then the user's callbacks."""

    def __init__(self, listeners: Sequence[Listener], callbacks: Sequence[Listener] = ()) -> None:
        self._listeners, self._callbacks = listeners, callbacks
        self.stopped_by: Listener | None = None

    def training_begins(self, training: Training) -> None:
        self._tell(lambda listener: listener.training_begins(training))

    def step(self, steps: int, steps_per_second: float) -> None:
        self._tell(lambda listener: listener.step(steps, steps_per_second))

    def episodes_end(self, steps: int, episodes: Mapping[int, Sequence[Episode]]) -> None:
        self._tell(lambda listener: listener.episodes_end(steps, episodes))

    def metrics(self, steps: int, metrics: Mapping[int, Mapping[str, float]], steps_per_second: float) -> None:
        self._tell(lambda listener: listener.metrics(steps, metrics, steps_per_second))

    def evaluation(self, steps: int, evaluations: Mapping[int, Evaluation], seconds: Array) -> None:
        self._tell(lambda listener: listener.evaluation(steps, evaluations, seconds))

    def checkpoint(self, steps: int, agent: int) -> None:
        self._tell(lambda listener: listener.checkpoint(steps, agent))

    def message(self, text: str) -> None:
        self._tell(lambda listener: listener.message(text))

    def agent_fails(self, agent: int, fault: MRQError) -> None:
        self._tell(lambda listener: listener.agent_fails(agent, fault))

    def training_ends(self, steps: int) -> None:
        """Tells everyone, also where one fails."""
        with ExitStack() as stack:
            for listener in reversed([*self._listeners, *self._callbacks]):
                stack.callback(listener.training_ends, steps)

    def _tell(self, event: Callable[[Listener], Any]) -> None:
        """Tells everyone, and remembers who wants to stop the training."""
        for listener in self._listeners:
            self._heed(event(listener), listener)
        for callback in self._callbacks:
            try:
                self._heed(event(callback), callback)
            except Exception as error:
                raise CallbackFault(f"the callback {callback} failed ({one_line(error)}).") from error

    def _heed(self, answer: Any, listener: Listener) -> None:
        if isinstance(answer, bool | np.bool_) and not answer:  # not None, nor a callback's 0
            self.stopped_by = self.stopped_by or listener
