"""The events of a training, and who is told of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mrq.errors import MRQError
from mrq.interface import Array, Identity
from mrq.training.episodes import Episode
from mrq.training.evaluation import Evaluation


@dataclass(frozen=True)
class Training:
    """What a training is going to do."""

    identities: Sequence[Identity]  # of its agents, in the order by which events number them
    steps: int  # taken so far
    total_steps: int
    random_steps: int  # before learning begins


class Listener:
    """Is told what happens in a training; override the events that matter. Agents are numbered from 0."""

    def training_begins(self, training: Training) -> None:
        """Training begins, or resumes."""

    def step(self, steps: int, steps_per_second: float) -> bool | None:
        """Every agent took a step; the pace is 0 while it is unknown. Returning False stops the training."""

    def episodes_end(self, steps: int, episodes: Mapping[int, Sequence[Episode]]) -> None:
        """Training episodes ended, by agent."""

    def metrics(self, steps: int, metrics: Mapping[int, Mapping[str, float]], steps_per_second: float) -> None:
        """A period is over; its latest losses and values by agent and name."""

    def evaluation(self, steps: int, evaluations: Mapping[int, Evaluation], seconds: Array) -> None:
        """Agents were evaluated; `seconds` (agents,) is how long training took before it."""

    def checkpoint(self, steps: int, agent: int) -> None:
        """A checkpoint of an agent was written."""

    def message(self, text: str) -> None:
        """There is something to tell the user."""

    def agent_fails(self, agent: int, fault: MRQError) -> None:
        """An agent cannot continue; the others do."""

    def training_ends(self, steps: int) -> None:
        """Training is over, for whatever reason; close what is open."""


class Listeners(Listener):
    """Several listeners, told one after the other."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = listeners

    def training_begins(self, training: Training) -> None:
        for listener in self._listeners:
            listener.training_begins(training)

    def step(self, steps: int, steps_per_second: float) -> bool:
        answers = [listener.step(steps, steps_per_second) for listener in self._listeners]
        return not any(answer is False for answer in answers)  # None, or a callback's 0, does not stop it

    def episodes_end(self, steps: int, episodes: Mapping[int, Sequence[Episode]]) -> None:
        for listener in self._listeners:
            listener.episodes_end(steps, episodes)

    def metrics(self, steps: int, metrics: Mapping[int, Mapping[str, float]], steps_per_second: float) -> None:
        for listener in self._listeners:
            listener.metrics(steps, metrics, steps_per_second)

    def evaluation(self, steps: int, evaluations: Mapping[int, Evaluation], seconds: Array) -> None:
        for listener in self._listeners:
            listener.evaluation(steps, evaluations, seconds)

    def checkpoint(self, steps: int, agent: int) -> None:
        for listener in self._listeners:
            listener.checkpoint(steps, agent)

    def message(self, text: str) -> None:
        for listener in self._listeners:
            listener.message(text)

    def agent_fails(self, agent: int, fault: MRQError) -> None:
        for listener in self._listeners:
            listener.agent_fails(agent, fault)

    def training_ends(self, steps: int) -> None:
        for listener in self._listeners:
            listener.training_ends(steps)
