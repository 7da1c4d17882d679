"""Restores saved data; refuses what no training can have written, whatever its digests say."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

LARGEST_COUNT = 10**12  # of steps, updates or episodes


def restore(
    tensor: Tensor,
    saved: Mapping[str, Any],  # arrays or tensors by name
    name: str,
    saved_as: type[np.generic] | None = None,  # the dtype that it was saved with, if not its own
) -> None:
    """Copies saved numbers to their place; refuses another shape or dtype, which copying would adapt, and NaN."""
    value = torch.as_tensor(saved[name])
    dtype = tensor.dtype if saved_as is None else torch.as_tensor(np.zeros(0, saved_as)).dtype
    if value.shape != tensor.shape or value.dtype != dtype:
        expected = f"{dtype} of shape {tuple(tensor.shape)}"
        raise ValueError(f"{name} is {value.dtype} of shape {tuple(value.shape)}, and not {expected}")
    refuse_unless(bool(value.isfinite().all()), f"NaN or infinity in {name}")
    tensor.copy_(value)


def joined(values: list[Any]) -> Any:
    """Returns what is saved of an agent's environments: a list, or the value of the only one."""
    return values[0] if len(values) == 1 else values


def separated(saved: Any, count: int) -> list[Any]:
    """Returns the value of each of an agent's environments, from what `joined` returned."""
    if count == 1:
        return [saved]
    refuse_unless(isinstance(saved, list) and len(saved) == count, "the number of environments")
    return list(saved)


def refuse_unless(sound: bool, what: str) -> None:
    """Refuses saved data that is not sound."""
    if not sound:
        raise ValueError(f"{what} cannot be right")


def is_count(value: object, least: int = 0, most: int = LARGEST_COUNT) -> bool:
    """Says whether a saved value is a whole number in a range."""
    return type(value) is int and least <= value <= most
