"""What another algorithm must bring to be trained and evaluated as MR.Q is."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

import torch

from mrq.baselines.environment import PlainEnvironment
from mrq.errors import MRQError
from mrq.interface import Array


class Baseline(Protocol):
    @property
    def steps(self) -> int:
        """Taken in its environment so far."""

    @property
    def parameters(self) -> int:
        """How many numbers it learns."""

    def learn(self, total_steps: int, on_step: Callable[[], bool]) -> None:
        """Goes on to `total_steps`. After every step it asks `on_step` whether to go on."""

    def act(self, states: Array) -> Array:
        """What it would do without exploring: actions, or their numbers (count, …) for states (count, *state_shape)."""

    def save(self, folder: Path) -> None:
        """Everything that the one who makes it needs to go on."""


class Beginning(NamedTuple):
    """What one is made from."""

    environment: PlainEnvironment
    seed: int
    total_steps: int
    device: torch.device
    saved: Path | None  # what `save` filled, to go on from


class Kind(NamedTuple):
    name: str  # in folders and reports
    actions: tuple[str, ...]  # that it can learn: "discrete", "continuous" or both
    make: Callable[[Beginning], Baseline]

    def can_learn(self, discrete: bool) -> bool:
        return _named(discrete) in self.actions

    def refuse_actions_of(self, task: str, discrete: bool) -> None:
        if not self.can_learn(discrete):
            raise MRQError(
                f"{self.name} cannot learn {task}, whose actions are {_named(discrete)}; give tasks that it can."
            )


def _named(discrete: bool) -> str:
    return "discrete" if discrete else "continuous"
