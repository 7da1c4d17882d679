"""The environment's actions for a batch of the networks', as tensor operations: as in `environments/actions.py`."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor

from mrq.environments.actions import action_part
from mrq.interface import Array, Spec


def environment_actions(
    actions: Tensor,  # (batch, action_size)
    spec: Spec,
    leaves: Mapping[str, Space[Any]],
) -> dict[str, Tensor]:
    """Returns the parts of an environment's actions (batch, *shape) by name."""
    ends = np.cumsum([spec.continuous, *spec.choices]).tolist()
    chosen = [actions[:, first:end].argmax(-1) for first, end in pairwise(ends)]
    made, number, choice = {}, 0, 0
    for name, space in leaves.items():
        part = action_part(space)
        if part.continuous:
            made[name] = _scaled(actions[:, number : number + part.continuous], space)
        else:
            made[name] = _counted(chosen[choice : choice + len(part.choices)], space)
        number, choice = number + part.continuous, choice + len(part.choices)
    return made


def _scaled(numbers: Tensor, space: Space[Any]) -> Tensor:
    assert isinstance(space, spaces.Box)
    low, high = (torch.from_numpy(bounds.astype(np.float64)) for bounds in (space.low, space.high))
    scaled = low + (numbers.reshape(-1, *space.shape).double() + 1) / 2 * (high - low)
    return scaled.to(dtype_of(space)).clamp(torch.from_numpy(space.low), torch.from_numpy(space.high))


def _counted(chosen: list[Tensor], space: Space[Any]) -> Tensor:
    if isinstance(space, spaces.Discrete):
        return chosen[0] + int(space.start)
    start: Array = np.zeros(space.shape or ())
    if isinstance(space, spaces.MultiDiscrete):
        start = space.start
    elif isinstance(space, spaces.Box):
        start = space.low
    whole = torch.stack(chosen, 1).reshape(-1, *(space.shape or ())) + torch.from_numpy(start.astype(np.int64))
    return whole.to(dtype_of(space))


def dtype_of(space: Space[Any]) -> torch.dtype:
    """Returns PyTorch's name for a space's dtype."""
    return torch.from_numpy(np.zeros(0, space.dtype)).dtype
