"""The small types through which environments, replay and algorithms meet. None of the three imports another."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
LONGEST_HISTORY = 40
# In run.json: the spaces as text, whether there are masks of actions, and the spaces' definitions.
SPACES, MASKS, DEFINITIONS = ("observation", "action"), "masks", "definitions"
MASKED = "action masks"  # what it says of them where there are some
WORD = 8  # bytes; a GPU copies so many as fast as one


class Identity(NamedTuple):
    """Says which agent it is: the task as a user names it, and the seed from which all its randomness comes."""

    task: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.task} (seed {self.seed})"


class Image(NamedTuple):
    """A picture as the networks see it: uint8, channels first."""

    channels: int
    height: int
    width: int


@dataclass(frozen=True)
class Spec:
    """Describes what a task looks like to the networks.

    A frame is what the networks see of one observation: its numbers, or its image. Where it has both, or several
    images, a frame is a row of bytes: the numbers first, then the images.
    """

    images: tuple[Image, ...] = ()
    numbers: int = 0
    history: int = 1  # frames stacked into a state
    continuous: int = 0  # entries of an action in [-1, 1]
    choices: tuple[int, ...] = ()  # the options of each choice; an action has them one-hot, after its other entries
    masked: bool = False  # after its numbers, a frame says which options are allowed: 1 or 0 each

    @property
    def action_size(self) -> int:
        return self.continuous + sum(self.choices)

    @property
    def floats(self) -> int:
        """The numbers of a frame, with its mask."""
        return self.numbers + (sum(self.choices) if self.masked else 0)

    @property
    def packed(self) -> bool:
        """Whether a frame is a row of bytes that holds several parts."""
        return len(self.images) > 1 or bool(self.images and self.floats)

    @property
    def frame_shape(self) -> tuple[int, ...]:
        """The shape of a frame: (numbers,), (channels, height, width) or (bytes,)."""
        if self.packed:
            size = 4 * self.floats + sum(math.prod(image) for image in self.images)
            return (-(-size // WORD) * WORD,)
        return tuple(self.images[0]) if self.images else (self.floats,)

    @property
    def frame_dtype(self) -> type[np.uint8] | type[np.float32]:
        return np.uint8 if self.images else np.float32

    @property
    def state_shape(self) -> tuple[int, ...]:
        """The shape of `history` frames, along a frame's first axis."""
        return (self.frame_shape[0] * self.history, *self.frame_shape[1:])


def common_spec(specs: Sequence[Spec], names: Sequence[str] = ()) -> Spec:
    """Returns the smallest Spec that holds them all; refuses specs that differ in more than size.

    `names` are for messages.
    """
    names = names or [f"agent {agent}" for agent in range(len(specs))]
    for spec, name in zip(specs, names, strict=True):
        for ours, theirs in zip(kind_of(specs[0]), kind_of(spec), strict=True):
            if ours != theirs:
                raise MRQError(f"{names[0]} has {ours} and {name} has {theirs}; train them in separate calls.")
    return replace(
        specs[0],
        numbers=max(spec.numbers for spec in specs),
        continuous=max(spec.continuous for spec in specs),
        choices=max(spec.choices for spec in specs),  # as many in each
    )


def kind_of(spec: Spec) -> tuple[str, str]:
    """Says what observations and actions are, with all sizes that agents must share to train together."""
    return _observation_kind(spec), _action_kind(spec)


def _observation_kind(spec: Spec) -> str:
    images = " and ".join("x".join(map(str, image)) for image in spec.images)
    if spec.packed:
        what = f"{images} images with {spec.numbers} numbers"
    elif spec.images:
        what = f"{images} images"
    else:
        what = f"{spec.numbers} numbers" if spec.masked else "vectors"
    if spec.masked:
        what += " and masks of actions"
    return f"{what} as observations" if spec.history == 1 else f"stacks of {spec.history} {what} as observations"


def _action_kind(spec: Spec) -> str:
    if not spec.choices:
        return "continuous actions"
    if spec.continuous or len(spec.choices) > 1 or spec.masked:
        parts = [f"{spec.continuous} numbers"] * bool(spec.continuous)
        parts += [f"choices of {' and '.join(map(str, spec.choices))} options"]
        return f"actions with {' and '.join(parts)}"
    return "discrete actions"


class Transitions(NamedTuple):
    """One step of every environment, on its way to the replay; an agent's environments lie side by side."""

    actions: Array  # (environments, action_size), as the networks have them
    rewards: Array  # (environments,)
    terminated: Array  # (environments,)
    truncated: Array  # (environments,)
    next_frames: Array  # (environments, *frame_shape)
    began: Array | None = None  # (environments,), where the step only began an episode, with its first frame


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
