"""What networks see of a batch of observations, as tensor operations: the same as `environments/observations.py`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor

from mrq.environments.images import Covered, Layout, covered_by, layout_of, scaling_of
from mrq.environments.observations import few_values
from mrq.environments.options import EnvironmentOptions
from mrq.errors import MRQError
from mrq.interface import Array

Read = Callable[[Tensor], Tensor]


class Reader(NamedTuple):
    """Reads a part of a batch of observations."""

    space: Space[Any]
    read: Read  # (batch, *shape) to pixels (batch, channels, height, width), uint8, or numbers (batch, numbers)
    is_image: bool = False


def reader_of(space: Space[Any], name: str, options: EnvironmentOptions) -> Reader | None:
    """Returns what reads a part of an observation; None where networks see nothing of it."""
    if isinstance(space, spaces.Discrete):
        return Reader(space, _one_hot(np.array([space.n]), np.array([space.start])))
    if isinstance(space, spaces.MultiDiscrete):
        return Reader(space, _one_hot(space.nvec, space.start))
    if isinstance(space, spaces.MultiBinary):
        return Reader(space, _numbers)
    if isinstance(space, spaces.Box):
        if layout := layout_of(space):
            return Reader(space, _pixels(space, layout, options.image_size), is_image=True)
        if not np.prod(space.shape):
            return None
        if values := few_values(space):
            low, count = values
            return Reader(space, _one_hot(np.full(space.shape, count), np.full(space.shape, low)))
        return Reader(space, _numbers)
    if options.text:
        raise MRQError(f"the part {name!r} of the observation is text, which exported policies cannot read.")
    return None


def _numbers(values: Tensor) -> Tensor:
    return values.flatten(1).float() if values.ndim > 1 else values[:, None].float()


def _one_hot(sizes: Array, starts: Array) -> Read:
    """Encodes whole numbers, each from its start on, one-hot and side by side."""
    sizes = sizes.ravel()
    owners = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes))
    options = torch.from_numpy(np.concatenate([np.arange(size) for size in sizes]))
    first = torch.from_numpy(starts.ravel().astype(np.int64))

    def read(values: Tensor) -> Tensor:
        places = values.reshape(values.shape[0], len(sizes)).long() - first
        return (places[:, owners] == options).float()

    return read


def _pixels(space: spaces.Box, layout: Layout, size: int) -> Read:
    low, scale, plain = scaling_of(space)
    low, scale = torch.as_tensor(low), torch.as_tensor(scale)
    resized = (layout.height, layout.width) != (size, size)
    rows, columns = covered_by(layout.height, size), covered_by(layout.width, size)

    def read(values: Tensor) -> Tensor:
        pixels = values if plain else ((values.float() - low) * scale).clamp(0, 255)
        frames = pixels if layout.frames else pixels[:, None]
        if frames.ndim == 4:  # grey
            frames = frames[:, :, None]
        elif layout.channels_last:
            frames = frames.movedim(-1, 2)
        image = frames.reshape(-1, layout.channels, layout.height, layout.width)
        if resized:
            image = _averaged(_averaged(image.float(), rows, 2), columns, 3)
        return image if image.dtype == torch.uint8 else image.round().to(torch.uint8)

    return read


def _averaged(images: Tensor, covered: Covered, axis: int) -> Tensor:
    """Averages what each new pixel covers, in the order in which NumPy adds it up, since sums are rounded to bytes."""
    shape = [1] * images.ndim
    shape[axis] = -1
    average = torch.zeros(())
    for place, (places, shares) in enumerate(zip(*covered, strict=True)):
        weighted = images.index_select(axis, torch.from_numpy(places)) * torch.from_numpy(shares).view(shape)
        average = weighted if place == 0 else average + weighted
    return average
