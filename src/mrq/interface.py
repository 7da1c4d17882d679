"""The small types through which environments, replay and algorithm meet; none of the three imports another."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]


@dataclass(frozen=True)
class Spec:
    """What a task looks like to the networks."""

    frame_shape: tuple[int, ...]  # of one observation: (size,) or (channels, 84, 84)
    history: int  # observations stacked into a state; 1 for vectors
    action_size: int
    discrete: bool

    @property
    def image(self) -> bool:
        return len(self.frame_shape) == 3

    @property
    def state_shape(self) -> tuple[int, ...]:
        return (self.frame_shape[0] * self.history, *self.frame_shape[1:])


class Transitions(NamedTuple):
    """One environment step of every agent, from the environments to the replay."""

    actions: Array  # (agents, action_size), in the network's terms
    rewards: Array  # (agents,)
    terminated: Array  # (agents,)
    truncated: Array  # (agents,)
    next_frames: Array  # (agents, *frame_shape)


class Windows(NamedTuple):
    """Sampled stretches of episodes, from the replay to the algorithm."""

    slots: Tensor  # (agents, count), where each window begins in the replay
    states: Tensor  # (agents, count, chosen states, *state_shape)
    actions: Tensor  # (agents, count, horizon, action_size)
    rewards: Tensor  # (agents, count, horizon)
    alive: Tensor  # (agents, count, horizon + 1), 1 while the episode had not terminated before that step
