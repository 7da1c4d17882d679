"""Stacks tensors of different sizes along a leading agent axis. The smaller ones are padded with zeros."""

from collections.abc import Sequence

import torch
from torch import Tensor


def within(shape: Sequence[int]) -> tuple[slice, ...]:
    """Returns the part of a padded tensor that holds a tensor of this shape."""
    return tuple(slice(size) for size in shape)


def stack_padded(tensors: Sequence[Tensor], pin_memory: bool = False) -> Tensor:
    """Returns the tensors stacked along a new first axis, padded to the largest size of each axis."""
    shape = torch.tensor([tensor.shape for tensor in tensors]).amax(0).tolist()
    stacked = torch.zeros(len(tensors), *shape, dtype=tensors[0].dtype, pin_memory=pin_memory)
    for padded, tensor in zip(stacked, tensors, strict=True):
        padded[within(tensor.shape)] = tensor
    return stacked
