"""The small types through which environments, replay and algorithms meet. None of the three imports another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mrq.errors import MRQError

if TYPE_CHECKING:
    # The processes that step environments do without PyTorch.
    from torch import Tensor

    from mrq.execution import Function

Array = NDArray[Any]
Say = Callable[[str], None]  # tells the user something, in one line
SMALLEST_CAPACITY = 100  # windows and stacks must never meet themselves around the replay's ring
LONGEST_HORIZON = 50


class Identity(NamedTuple):
    """Says which agent it is: the task as a user names it, and the seed from which all its randomness comes."""

    task: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.task} (seed {self.seed})"


@dataclass(frozen=True)
class Spec:
    """Describes what a task looks like to the networks."""

    frame_shape: tuple[int, ...]  # of one observation: (size,) or (channels, 84, 84)
    history: int  # observations stacked into a state; 1 for vectors
    action_size: int
    discrete: bool

    @property
    def image(self) -> bool:
        return len(self.frame_shape) == 3

    @property
    def frame_dtype(self) -> type[np.uint8] | type[np.float32]:
        return np.uint8 if self.image else np.float32

    @property
    def state_shape(self) -> tuple[int, ...]:
        return (self.frame_shape[0] * self.history, *self.frame_shape[1:])


def common_spec(specs: Sequence[Spec], names: Sequence[str] = ()) -> Spec:
    """Returns the smallest Spec that holds them all; refuses specs that differ in more than size.

    `names` are for messages.
    """
    names = names or [f"agent {agent}" for agent in range(len(specs))]
    for spec, name in zip(specs, names, strict=True):
        for kind in (_observation_kind, _action_kind):
            if kind(spec) != kind(specs[0]):
                raise MRQError(
                    f"{names[0]} has {kind(specs[0])} and {name} has {kind(spec)}; train them in separate calls."
                )
    frame_shape = max(spec.frame_shape for spec in specs)  # images have one shape, vectors one axis
    action_size = max(spec.action_size for spec in specs)
    return Spec(frame_shape, specs[0].history, action_size, specs[0].discrete)


def _observation_kind(spec: Spec) -> str:
    if not spec.image:
        return "vectors as observations"
    return f"stacks of {spec.history} {'x'.join(map(str, spec.frame_shape))} images as observations"


def _action_kind(spec: Spec) -> str:
    return "discrete actions" if spec.discrete else "continuous actions"


class Transitions(NamedTuple):
    """One environment step of every agent, on its way from the environments to the replay."""

    actions: Array  # (agents, action_size), as the networks have them
    rewards: Array  # (agents,)
    terminated: Array  # (agents,)
    truncated: Array  # (agents,)
    next_frames: Array  # (agents, *frame_shape)


@dataclass(frozen=True)
class ReplaySettings:
    """What an algorithm asks of its replay."""

    capacity: int  # observations it holds at most
    horizon: int  # transitions that must follow a state before it may be sampled
    priority_exponent: float = 0.0  # 0: every state is as likely as any other
    minimum_priority: float = 1.0  # the smallest TD error, before the exponent

    def __post_init__(self) -> None:
        if self.capacity < SMALLEST_CAPACITY:
            raise MRQError(f"replay_capacity is {self.capacity}; it must be at least {SMALLEST_CAPACITY}.")
        if self.horizon > LONGEST_HORIZON:
            raise MRQError(f"a horizon of {self.horizon} steps is too long; the most is {LONGEST_HORIZON}.")


class Windows(NamedTuple):
    """Sampled stretches of episodes, on their way from the replay to an algorithm."""

    slots: Tensor  # (agents, count), where each window begins in the replay
    states: Tensor  # (agents, count, chosen states, *state_shape)
    actions: Tensor  # (agents, count, horizon, action_size)
    rewards: Tensor  # (agents, count, horizon)
    alive: Tensor  # (agents, count, horizon + 1), 1 while the episode had not terminated before that step


class Sampler(Protocol):
    """What an algorithm sees of the replay."""

    sample: Function  # windows for uniforms (agents, count), with their states at a sequence of ascending offsets
    terminated_before: Tensor  # (agents,), whether any episode of an agent has terminated so far

    def update_priorities(self, slots: Tensor, td_errors: Tensor) -> None:
        """Gives sampled slots (agents, count) priorities by their TD errors (agents, count)."""

    def mean_absolute_reward(self) -> Tensor:
        """Returns each agent's mean absolute reward (agents,)."""
