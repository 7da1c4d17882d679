"""The small types through which environments, replay and algorithm meet; none of the three imports another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mrq.errors import MRQError

if TYPE_CHECKING:
    from torch import Tensor  # the processes that step environments do without PyTorch

Array = NDArray[Any]


class Agent(NamedTuple):
    """Who trains: the task as a user names it, and the seed that all of its randomness comes from."""

    task: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.task} (seed {self.seed})"


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
    def frame_dtype(self) -> type[np.uint8] | type[np.float32]:
        return np.uint8 if self.image else np.float32

    @property
    def state_shape(self) -> tuple[int, ...]:
        return (self.frame_shape[0] * self.history, *self.frame_shape[1:])


def common_spec(specs: Sequence[Spec], names: Sequence[str] = ()) -> Spec:
    """The smallest Spec that holds them all; refuses those that differ in more than size. `names` are for messages."""
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
