"""Callbacks for `MRQ.learn`: a class with a method per event for your own, and ready-made ones.

from mrq.callbacks import Callback, StopAtReturn

class Announce(Callback):
    def evaluation(self, steps, evaluations, seconds):
        print(steps, evaluations[0].mean, self.agent.num_timesteps)

agent.learn(20_000, callback=[Announce(), StopAtReturn(-200)], evaluate_every=1_000)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mrq.bounds import MOST_STEPS, Between
from mrq.errors import MRQError
from mrq.interface import Array
from mrq.terminal import say
from mrq.training.evaluation import Evaluation
from mrq.training.listeners.films import Films
from mrq.training.listeners.listener import Listener, Training
from mrq.training.listeners.stopping import StopAtReturn, StopWithoutImprovement

if TYPE_CHECKING:
    from mrq.agent import MRQ

__all__ = ["Callback", "FilmEvery", "KeepBest", "OnStep", "SaveEvery", "StopAtReturn", "StopWithoutImprovement"]


class Callback(Listener):
    """Is told what happens in `MRQ.learn`; `agent` is the one that learns, number 0 in the events."""

    agent: MRQ


CallbackLike = Listener | Callable[["MRQ"], bool | None]


class OnStep(Callback):
    """Calls a function of the agent after every step."""

    def __init__(self, function: Callable[[MRQ], bool | None]) -> None:
        self._function = function

    def __str__(self) -> str:
        return str(getattr(self._function, "__name__", self._function))

    def step(self, steps: int, steps_per_second: float) -> bool | None:
        return self._function(self.agent)


class KeepBest(Callback):
    """Saves the agent to a folder whenever its evaluation is better than all before; `MRQ.load` takes the folder.

    The networks alone are kept by default, in `best/` of a `run_folder`.
    """

    needs_evaluations = True

    def __init__(self, folder: str | Path) -> None:
        self._folder, self._best = folder, float("-inf")

    def training_begins(self, training: Training) -> None:
        self._best = max([self._best, *training.returns[0]])

    def evaluation(self, steps: int, evaluations: Mapping[int, Evaluation], seconds: Array) -> None:
        if evaluations[0].mean > self._best:
            self._best = evaluations[0].mean
            self.agent.save(self._folder)


class SaveEvery(Callback):
    """Saves the agent every so many steps, to FOLDER/step-N; `MRQ.load` takes these folders."""

    def __init__(self, steps: int, folder: str | Path) -> None:
        Between(1, MOST_STEPS).check(steps, "the steps of SaveEvery")
        self._every, self._folder = steps, Path(folder)

    def training_begins(self, training: Training) -> None:
        self._saved = training.steps // self._every

    def step(self, steps: int, steps_per_second: float) -> None:
        if steps // self._every > self._saved:
            self._saved = steps // self._every
            self.agent.save(self._folder / f"step-{steps}")


class FilmEvery(Callback):
    """Films the agent at the first evaluation and at every so many after it, as FOLDER/step-N.mp4."""

    needs_evaluations = True

    def __init__(self, evaluations: int, folder: str | Path) -> None:
        Between(1, MOST_STEPS).check(evaluations, "the evaluations of FilmEvery")
        self._every, self._folder = evaluations, Path(folder)
        self._films: Films | None = None

    def training_begins(self, training: Training) -> None:
        self._films = Films(self._every, [self._folder], lambda *_: self.agent.environment_to_film(), say)
        self._films.training_begins(training)

    def evaluation(self, steps: int, evaluations: Mapping[int, Evaluation], seconds: Array) -> None:
        assert self._films is not None, "training has begun"
        self._films.evaluation(steps, evaluations, seconds)

    def training_ends(self, steps: int) -> None:
        if self._films is not None:
            self._films.training_ends(steps)


def callbacks_from(given: CallbackLike | Sequence[CallbackLike] | None, agent: MRQ) -> list[Listener]:
    """Returns what `learn(callback=…)` was given: one or several objects, or functions of the agent."""
    several = [] if given is None else [given] if isinstance(given, Listener) or callable(given) else given
    callbacks = []
    for one in several:
        if isinstance(one, type) or not (isinstance(one, Listener) or callable(one)):
            raise MRQError(f"a callback is {one!r}; give a function of the agent, or an object of mrq.callbacks.")
        callback = one if isinstance(one, Listener) else OnStep(one)
        if isinstance(callback, Callback):
            callback.agent = agent
        callbacks.append(callback)
    return callbacks
