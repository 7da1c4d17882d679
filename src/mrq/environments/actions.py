"""Actions as the networks choose them: entries in [-1, 1], then a one-hot group of options for every choice."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector.utils import concatenate, create_empty_array

from mrq.bounds import shown
from mrq.environments.checks import Misbehaviour
from mrq.environments.options import MOST_VALUES
from mrq.errors import MRQError
from mrq.interface import Array

MOST_OPTIONS = 4_096  # of all choices of a Box of integers
ACTION = "the action"
MASK = "action_mask"
Make = Callable[[Array, Array], Any]  # the environment's value for its entries in [-1, 1] and its chosen options


class ActionPart(NamedTuple):
    """What a part of an action takes, and how the environment's value is made of it."""

    continuous: int
    choices: tuple[int, ...]
    make: Make


def action_part(space: Space[Any], name: str = ACTION) -> ActionPart:
    """Returns a space as one part; refuses spaces that networks cannot choose from."""
    if isinstance(space, spaces.Discrete):
        return ActionPart(0, (int(space.n),), lambda numbers, chosen: space.start + chosen[0])
    if isinstance(space, spaces.MultiDiscrete):
        return ActionPart(0, _sizes(space.nvec), lambda _, chosen: _integers(space, chosen, space.start))
    if isinstance(space, spaces.MultiBinary):
        return ActionPart(0, (2,) * int(np.prod(space.shape)), lambda _, chosen: _integers(space, chosen, 0))
    if isinstance(space, spaces.Box):
        return _box(space, name)
    if isinstance(space, spaces.Dict):
        parts = [action_part(part, f"the part {key!r} of {name}") for key, part in space.spaces.items()]
        return _joined(parts, lambda values: dict(zip(space.spaces, values, strict=True)))
    if isinstance(space, spaces.Tuple):
        parts = [action_part(part, f"the part {key} of {name}") for key, part in enumerate(space.spaces)]
        return _joined(parts, tuple)
    if isinstance(space, spaces.Text):
        raise MRQError(
            f"{name} is text, which networks cannot choose; list what may be said and choose from it with "
            "gymnasium.wrappers.TransformAction(env, lambda index: TEXTS[index], Discrete(len(TEXTS)))."
        )
    raise MRQError(
        f"{name} is a {type(space).__name__}, whose size varies or is unknown; choose from a fixed space, for example "
        "a Discrete, with gymnasium.wrappers.TransformAction."
    )


def action_parts(space: Space[Any]) -> ActionPart:
    """Returns an action space as one part that is not empty."""
    part = action_part(space)
    if not part.continuous + len(part.choices):
        raise MRQError(f"the action space {space} is empty; an action needs at least one entry.")
    if (options := sum(part.choices)) > MOST_VALUES:
        raise MRQError(
            f"the action space {space} has {options:,} options, and networks can choose from {MOST_VALUES:,}; use "
            "fewer, or a Box of floats, with gymnasium.wrappers.TransformAction."
        )
    return part


def given_mask(*holders: Any) -> Any:
    """Returns the mask in `info`, where Gymnasium has it, or in an observation, where PettingZoo has it."""
    for holder in holders:
        if isinstance(holder, Mapping) and holder.get(MASK) is not None:
            return holder[MASK]
    return None


def mask_of(space: Space[Any], mask: Any) -> Array | None:
    """Returns an environment's mask of a Discrete or MultiDiscrete space as 1 for each option that is allowed, else 0.

    A choice without any allowed option, as at the end of a game, allows all. Returns None for other spaces; raises
    Misbehaviour where the mask does not fit the space.
    """
    masks = _masks_of_choices(space, mask)
    if masks is None:
        return None
    return np.concatenate([part if part.any() else np.ones_like(part) for part in masks]).astype(np.float32)


def is_mask(space: Space[Any], mask: Any) -> bool:
    """Says whether an environment's mask of its actions is one that `mask_of` reads."""
    return mask is not None and mask_of(space, mask) is not None


def allows_nothing(space: Space[Any], mask: Any) -> bool:
    """Says whether an environment's mask allows no option of a choice, so that it is read as allowing all of them."""
    return not all(part.any() for part in _masks_of_choices(space, mask) or [])


def batched(space: Space[Any], actions: Sequence[Any]) -> Any:
    """Returns actions as a batch: arrays with one entry for each, nested as the space is."""
    room: Any = create_empty_array(space, len(actions))
    return concatenate(space, actions, room)


def _masks_of_choices(space: Space[Any], mask: Any) -> list[Array] | None:
    """Returns the part of a mask for each choice of a Discrete or MultiDiscrete space; None for other spaces."""
    if not isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return None
    sizes = [int(space.n)] if isinstance(space, spaces.Discrete) else space.nvec.ravel().tolist()
    try:
        in_parts = isinstance(mask, tuple | list) and any(np.ndim(part) for part in mask)
        parts = mask if in_parts else np.split(np.asarray(mask), np.cumsum(sizes)[:-1])
        masks = [np.asarray(part) for part in parts]
        fits = [part.shape for part in masks] == [(size,) for size in sizes]
    except Exception:  # a ragged list and a tensor with a gradient raise different ones
        fits = False
    if not fits:
        raise Misbehaviour(f"the action mask {shown(mask)} does not fit {space}")
    if not all(part.dtype.kind in "biuf" and ((part == 0) | (part == 1)).all() for part in masks):
        raise Misbehaviour(f"the action mask {shown(mask)} has other values than 0 and 1")
    return masks


def _box(space: spaces.Box, name: str) -> ActionPart:
    assert space.dtype is not None
    size = int(np.prod(space.shape))
    if space.dtype.kind in "iub":
        options = space.high.astype(np.int64).ravel() - space.low.astype(np.int64).ravel() + 1
        if options.astype(float).sum() > MOST_OPTIONS or options.min(initial=1) < 1:  # less than 1 where it overflows
            raise MRQError(
                f"{name} is {space}, a Box of integers with more than {MOST_OPTIONS:,} options; use fewer, or a Box of "
                "floats, with gymnasium.wrappers.TransformAction."
            )
        return ActionPart(0, _sizes(options), lambda _, chosen: _integers(space, chosen, space.low))
    if space.dtype.kind != "f":
        raise MRQError(f"{name} is {space}, which is neither of floats nor of integers; use one of these.")
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    with np.errstate(over="ignore"):
        span = high.astype(np.float32) - low.astype(np.float32)
    if not np.isfinite(span).all():
        raise MRQError(
            f"the action space {space} has no usable bounds; set finite ones with "
            "gymnasium.wrappers.TransformAction(env, lambda action: action, Box(low, high))."
        )

    def make(numbers: Array, chosen: Array) -> Array:
        scaled = low + (numbers.reshape(space.shape).astype(np.float64) + 1) / 2 * (high - low)
        return np.asarray(np.clip(scaled.astype(space.dtype), space.low, space.high))

    return ActionPart(size, (), make)


def _joined(parts: Sequence[ActionPart], join: Callable[[list[Any]], Any]) -> ActionPart:
    """Joins parts: each takes its share of the entries and of the choices, in their order."""
    numbers_at = np.cumsum([0, *(part.continuous for part in parts)]).tolist()
    choices_at = np.cumsum([0, *(len(part.choices) for part in parts)]).tolist()

    def make(numbers: Array, chosen: Array) -> Any:
        return join(
            [
                part.make(
                    numbers[numbers_at[place] : numbers_at[place + 1]],
                    chosen[choices_at[place] : choices_at[place + 1]],
                )
                for place, part in enumerate(parts)
            ]
        )

    return ActionPart(numbers_at[-1], tuple(size for part in parts for size in part.choices), make)


def _integers(space: Space[Any], chosen: Array, start: Any) -> Array:
    return np.array(chosen.reshape(space.shape or ()) + start, space.dtype)


def _sizes(counts: Array) -> tuple[int, ...]:
    return tuple(map(int, counts.ravel()))
