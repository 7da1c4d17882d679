"""What an environment returns is checked before it is used."""

from typing import Any

import numpy as np
from gymnasium import Space

from mrq.errors import MRQError, one_line
from mrq.interface import Array


class Misbehaviour(MRQError):
    """The environment returned something it must not."""


def as_array(value: Any, name: str) -> Array:
    """Returns a value of the environment as an array; `name` says in messages what it is."""
    try:
        return np.asarray(value)
    except Exception as error:  # a ragged list and a tensor with a gradient raise different ones
        raise Misbehaviour(f"{name} cannot be read as numbers ({one_line(error)})") from error


def checked_numbers(space: Space[Any], value: Any, name: str) -> Array:
    """Returns finite numbers of a space's shape, and of a dtype that fits into the space's."""
    assert space.dtype is not None
    array = as_array(value, name)
    if array.shape != space.shape:
        raise Misbehaviour(f"{name} has shape {array.shape}, but its space has {space.shape}")
    if not np.can_cast(array.dtype, space.dtype, "same_kind"):
        raise Misbehaviour(f"{name} is {array.dtype}, but its space is {space.dtype}")
    if array.dtype == np.uint8:
        return array
    with np.errstate(over="ignore"):
        if not np.isfinite(array.astype(np.float32)).all():
            kind = "NaN" if np.isnan(array).any() else "numbers that are infinite or too large for float32"
            raise Misbehaviour(f"{name} contains {kind}")
    return array
