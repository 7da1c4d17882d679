"""Images of any size, dtype and layout, as the networks see them: square, uint8, channels first."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space, spaces

from mrq.environments.checks import Misbehaviour
from mrq.environments.options import SMALLEST_SIDE
from mrq.errors import MRQError
from mrq.interface import Array, Image

LARGEST_VALUE = 255


class Layout(NamedTuple):
    """How an array holds an image: grey or in channels, possibly several frames of it."""

    height: int
    width: int
    channels: int  # of all frames
    channels_last: bool  # within each frame
    frames: int  # along a first axis of the array; 0: it has no such axis


def layout_of(space: Space[Any]) -> Layout | None:
    """Returns how a space holds an image, or None if it does not."""
    if not isinstance(space, spaces.Box) or space.dtype is None:
        return None
    layout = _layout(space.shape)
    if layout is None or min(layout.height, layout.width) < SMALLEST_SIDE:  # a grid of numbers or symbols
        return None
    if not layout.channels:  # it is empty
        return None
    low, high = float(space.low.min()), float(space.high.max())
    if space.dtype.kind in "iu":
        return layout if low >= 0 and high <= LARGEST_VALUE else None
    if space.dtype.kind != "f":
        return None
    if np.isfinite([low, high]).all():
        return layout
    if len(space.shape) >= 3 and layout.channels in (1, 3, 4):
        raise MRQError(
            f"the images {space} have no bounds; say which values they have with "
            f"gymnasium.wrappers.TransformObservation(env, lambda image: image, Box(0, 1, {space.shape}))."
        )
    return None


def image_reader(space: Space[Any], layout: Layout, size: int) -> tuple[Image, Callable[[Array, str], Array]]:
    """Returns what the networks see of a space's images, and a function that turns one, with its name, into that."""
    assert isinstance(space, spaces.Box)
    low, scale, plain = scaling_of(space)
    resized = (layout.height, layout.width) != (size, size)
    rows, columns = covered_by(layout.height, size), covered_by(layout.width, size)

    def read(array: Array, name: str) -> Array:
        pixels = array
        if not (plain and array.dtype == np.uint8):
            scaled = (array.astype(np.float32) - low) * scale
            if scaled.min() < -LARGEST_VALUE or scaled.max() > 2 * LARGEST_VALUE:  # more than noise on top of an image
                worst = np.abs(scaled - LARGEST_VALUE / 2).argmax()
                bounds = f"{space.low.flat[worst]:g} to {space.high.flat[worst]:g}"
                raise Misbehaviour(f"{name} contains {array.flat[worst]:g}, far outside of its space's {bounds}")
            pixels = scaled.clip(0, LARGEST_VALUE)
        frames = pixels if layout.frames else pixels[None]
        if frames.ndim == 3:  # grey
            frames = frames[:, None]
        elif layout.channels_last:
            frames = np.moveaxis(frames, -1, 1)
        image = frames.reshape(layout.channels, layout.height, layout.width)  # copies only stacked frames
        if resized:
            # One after the other, because malloc returns larger arrays to the system each time.
            image = np.stack([_averaged(_averaged(channel, rows, 0), columns, 1) for channel in image])
        return image if image.dtype == np.uint8 else np.rint(image).astype(np.uint8)

    return Image(layout.channels, size, size), read


def scaling_of(space: spaces.Box) -> tuple[Any, Any, bool]:
    """Returns what is subtracted from pixels and what they are multiplied by, and whether they are bytes as they are.

    That turns a space's lowest value into 0 and its highest into 255.
    """
    plain = space.dtype == np.uint8 and (space.low == 0).all() and (space.high == LARGEST_VALUE).all()
    low, high = _one_if_equal(space.low), _one_if_equal(space.high)
    return np.float32(low), np.float32(LARGEST_VALUE / np.maximum(high - low, 1e-30)), bool(plain)


def _one_if_equal(bounds: Array) -> Any:
    """Returns one bound where those of all pixels are equal, since arithmetic with one number is faster."""
    bounds = bounds.astype(np.float64)
    return bounds.flat[0] if (bounds == bounds.flat[0]).all() else bounds


def _layout(shape: tuple[int, ...]) -> Layout | None:
    if len(shape) == 2:
        return Layout(*shape, channels=1, channels_last=False, frames=0)
    if len(shape) == 3:
        if shape[0] < shape[2]:
            return Layout(shape[1], shape[2], shape[0], channels_last=False, frames=0)
        return Layout(shape[0], shape[1], shape[2], channels_last=True, frames=0)
    one = _layout(shape[1:]) if len(shape) == 4 else None
    return one and one._replace(channels=shape[0] * one.channels, frames=shape[0])


class Covered(NamedTuple):
    """The old pixels that each new one covers, along one axis, and their shares of it."""

    places: Array  # (most that one covers, new)
    shares: Array  # (most that one covers, new), 0 for a place that is not covered


def covered_by(old: int, new: int) -> Covered:
    """Returns which of the old pixels each of the new ones covers."""
    edges, before = np.linspace(0, old, new + 1), np.arange(old)
    overlap = np.minimum(edges[1:, None], before + 1) - np.maximum(edges[:-1, None], before)  # (new, old)
    shares = overlap.clip(min=0) * new / old
    most = int((shares > 0).sum(1).max())
    first = np.minimum((shares > 0).argmax(1), old - most)
    places = first + np.arange(most)[:, None]
    return Covered(places, shares[np.arange(new), places].astype(np.float32))


def _averaged(image: Array, covered: Covered, axis: int) -> Array:
    """Averages what each new pixel covers along an axis. Few pixels do, so adding them is faster than a product."""
    shape = [1] * image.ndim
    shape[axis] = -1
    weighted = (
        np.multiply(image.take(places, axis), shares.reshape(shape), dtype=np.float32)
        for places, shares in zip(*covered, strict=True)
    )
    average: Array = next(weighted)
    for more in weighted:
        average += more
    return average
