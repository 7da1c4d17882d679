"""What a state shows: its images and its numbers, taken out of the stacked frames."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mrq.interface import Spec

FLOAT_BYTES = 4


class Observed(NamedTuple):
    """The parts of states, each with the history's frames side by side."""

    images: tuple[Tensor, ...]  # each (batch, history * channels, height, width), uint8
    numbers: Tensor | None  # (batch, numbers * history)


class Unpacked(NamedTuple):
    """States of several parts, before they are packed into rows of bytes: exported policies cannot read these."""

    images: tuple[Tensor, ...]  # each (batch, history * channels, height, width), uint8
    floats: Tensor  # (batch, history, floats)


def observed(states: Tensor | Unpacked, spec: Spec) -> Observed:
    """Returns the parts of states (batch, *state_shape)."""
    if isinstance(states, Unpacked):
        return Observed(states.images, _numbers(states.floats, spec) if spec.numbers else None)
    if spec.images and not spec.packed:
        return Observed((states,), None)
    frames = states.view(states.shape[0], spec.history, -1)  # (batch, history, numbers or bytes)
    if not spec.images:
        return Observed((), _numbers(frames, spec))
    images, start = [], FLOAT_BYTES * spec.floats
    for image in spec.images:
        end = start + math.prod(image)
        images.append(frames[..., start:end].reshape(states.shape[0], -1, image.height, image.width))
        start = end
    return Observed(tuple(images), _numbers(_floats(frames, spec), spec) if spec.numbers else None)


def allowed_actions(states: Tensor | Unpacked, spec: Spec, own_actions: Tensor) -> Tensor:
    """Returns which entries of an action may be chosen in states (batch, *state_shape), (batch, action_size).

    Without masks that is the same in all states: (action_size,), False where a fleet's actions are padded.
    """
    if not spec.masked:
        return own_actions
    if isinstance(states, Unpacked):
        floats = states.floats
    else:
        frames = states.view(states.shape[0], spec.history, -1)
        floats = _floats(frames, spec) if spec.images else frames
    options = floats[:, -1, spec.numbers :] > 0
    return own_actions & torch.cat([options.new_ones(options.shape[0], spec.continuous), options], 1)


def _floats(frames: Tensor, spec: Spec) -> Tensor:
    """Reads the floats (batch, history, floats) of frames that are rows of bytes (batch, history, bytes)."""
    return frames[..., : FLOAT_BYTES * spec.floats].contiguous().view(torch.float32)


def _numbers(frames: Tensor, spec: Spec) -> Tensor:
    """Returns the numbers (batch, numbers * history) of frames' floats (batch, history, floats), without their masks.

    The history of a number stands together, so that a fleet's padding stands at the end.
    """
    numbers = frames[..., : spec.numbers]
    return numbers[:, 0] if spec.history == 1 else numbers.transpose(1, 2).flatten(1)
