"""Translates between Gymnasium's spaces and the network's terms.

Observations: 84x84 uint8 images stay images; everything else that has a fixed size becomes a vector (numbers
unchanged, discrete values one-hot). Actions: one entry in [-1, 1] per dimension of a bounded Box, one-hot for Discrete.
"""

from typing import Any

import numpy as np
from gymnasium import Space, spaces

from mrq.errors import MRQError, one_line
from mrq.interface import Array, Spec

IMAGE_SIZE = 84
HISTORY = {1: 4, 3: 3}  # frames to stack, by channels per frame: grey as in Atari, RGB as in visual control


class Misbehaviour(MRQError):
    """The environment returned something it must not."""


class Translator:
    """Translates one environment's observations and actions to the network's terms and back."""

    def __init__(self, observation_space: Space[Any], action_space: Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        discrete = isinstance(action_space, spaces.Discrete)
        if isinstance(action_space, spaces.Discrete):
            action_size = int(action_space.n)
        else:
            action_size = _box_action_size(action_space)
        frame_shape: tuple[int, ...]
        if _looks_like_image(observation_space):
            frame_shape = _image_shape(observation_space)
            history = HISTORY.get(frame_shape[0], 1)
        else:
            frame_shape, history = (_vector_size(observation_space),), 1
        self.spec = Spec(frame_shape, history, action_size, discrete)

    def frame(self, observation: Any) -> Array:
        """Returns an observation as the network sees it (*frame_shape); refuses one that does not fit the space."""
        if self.spec.image:
            image = _checked_box(self.observation_space, observation, "the observation")
            return _channels_first(image)
        return np.concatenate(_vectors(self.observation_space, observation, "the observation"))

    def frames(self, observation: Any) -> tuple[Array, bool]:
        """Returns one observation or a batch of them as frames (count, *frame_shape), and whether it was a batch."""
        try:
            return self.frame(observation)[None], False
        except Misbehaviour as misbehaviour:
            try:
                batch = [self.frame(item) for item in _unbatched(self.observation_space, observation)]
            except (Misbehaviour, TypeError, KeyError):
                raise misbehaviour from None
            if not batch:
                raise misbehaviour from None
            return np.stack(batch), True

    def action(self, action: Array) -> Any:
        """Returns the environment's action for the network's (action_size,)."""
        space = self.action_space
        if isinstance(space, spaces.Discrete):
            return space.start + action.argmax()
        assert isinstance(space, spaces.Box)
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        scaled = low + (action.reshape(space.shape).astype(np.float64) + 1) / 2 * (high - low)
        return np.clip(scaled.astype(space.dtype), space.low, space.high)


def _box_action_size(space: Space[Any]) -> int:
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        raise MRQError(
            f"the action space {space} is not supported yet; actions must be Discrete or a Box of floats, "
            "so wrap the environment with gymnasium.wrappers.TransformAction."
        )
    with np.errstate(over="ignore"):
        span = space.high.astype(np.float32) - space.low.astype(np.float32)
    if not np.isfinite(span).all():
        raise MRQError(
            f"the action space {space} has no usable bounds; set finite ones with "
            "gymnasium.wrappers.TransformAction(env, lambda action: action, Box(low, high))."
        )
    if 0 in space.shape:
        raise MRQError(f"the action space {space} is empty; an action needs at least one entry.")
    return int(np.prod(space.shape))


def _looks_like_image(space: Space[Any]) -> bool:
    """Returns whether a space has three axes, or two with a picture's dtype or size."""
    if not isinstance(space, spaces.Box):
        return False
    axes = len(space.shape)
    return axes == 3 or (axes == 2 and (space.dtype == np.uint8 or min(space.shape) >= 32))


def _image_shape(space: Space[Any]) -> tuple[int, int, int]:
    assert isinstance(space, spaces.Box)
    side = IMAGE_SIZE
    shape = space.shape if len(space.shape) == 3 else (1, *space.shape)
    if shape[1:] != (side, side) and shape[:2] != (side, side):
        raise MRQError(
            f"image observations must be {side}x{side}, not {'x'.join(map(str, space.shape))}; wrap the environment "
            "with gymnasium.wrappers.ResizeObservation (Atari: AtariPreprocessing), or FlattenObservation for a vector."
        )
    if space.dtype != np.uint8:
        raise MRQError(
            f"image observations must be uint8, not {space.dtype}; leave them unscaled, or convert them "
            "with gymnasium.wrappers.TransformObservation."
        )
    return (shape[0] if shape[1:] == (side, side) else shape[2], side, side)


def _channels_first(image: Array) -> Array:
    if image.ndim == 2:
        return image[None]
    return image if image.shape[1:] == (IMAGE_SIZE, IMAGE_SIZE) else np.moveaxis(image, -1, 0)


def _vector_size(space: Space[Any]) -> int:
    if isinstance(space, spaces.Box | spaces.MultiBinary) and not _looks_like_image(space):
        size = int(np.prod(space.shape))
    elif isinstance(space, spaces.Discrete):
        size = int(space.n)
    elif isinstance(space, spaces.MultiDiscrete):
        size = int(space.nvec.sum())
    elif isinstance(space, spaces.Tuple):
        size = sum(_vector_size(part) for part in space.spaces)
    elif isinstance(space, spaces.Dict):
        size = sum(_vector_size(part) for part in space.spaces.values())
    else:
        raise MRQError(
            f"the observation space {space} is not supported yet; observations must be an image, a vector, or "
            "a Dict or Tuple of vectors, so wrap the environment with gymnasium.wrappers.TransformObservation."
        )
    if size == 0:
        raise MRQError(f"the observation space {space} is empty; an observation needs at least one entry.")
    return size


def _vectors(space: Space[Any], value: Any, name: str) -> list[Array]:
    """Returns one vector per part of an observation, in the space's order."""
    if isinstance(space, spaces.Tuple):
        if not isinstance(value, tuple | list) or len(value) != len(space.spaces):
            raise Misbehaviour(f"{name} is not a tuple of {len(space.spaces)} parts")
        parts = zip(space.spaces, value, range(len(space.spaces)), strict=True)
        return [v for part, item, key in parts for v in _vectors(part, item, f"{name}[{key}]")]
    if isinstance(space, spaces.Dict):
        if not isinstance(value, dict) or value.keys() != space.spaces.keys():
            raise Misbehaviour(f"{name} is not a dict with the keys {', '.join(map(str, space.spaces))}")
        return [v for key, part in space.spaces.items() for v in _vectors(part, value[key], f"{name}[{key!r}]")]
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) and not space.contains(value):
        raise Misbehaviour(f"{name} is {value!r}, which is not in {space}")
    if isinstance(space, spaces.Discrete):
        return [_one_hot(int(space.n), int(value) - int(space.start))]
    if isinstance(space, spaces.MultiDiscrete):
        pairs = zip(space.nvec.ravel(), (value - space.start).ravel(), strict=True)
        return [_one_hot(int(n), int(index)) for n, index in pairs]
    return [_checked_box(space, value, name).astype(np.float32).ravel()]


def _one_hot(size: int, index: int) -> Array:
    vector = np.zeros(size, np.float32)
    vector[index] = 1
    return vector


def _unbatched(space: Space[Any], observations: Any) -> list[Any]:
    if isinstance(space, spaces.Dict):
        parts = [_unbatched(part, observations[key]) for key, part in space.spaces.items()]
        return [dict(zip(space.spaces, items, strict=True)) for items in zip(*parts, strict=True)]
    if isinstance(space, spaces.Tuple):
        pairs = zip(space.spaces, observations, strict=True)
        return list(zip(*[_unbatched(part, items) for part, items in pairs], strict=True))
    return list(observations)


def as_array(value: Any, name: str) -> Array:
    """Returns a value of the environment as an array; `name` says in messages what it is."""
    try:
        return np.asarray(value)
    except Exception as error:  # a ragged list and a tensor with a gradient raise different ones
        raise Misbehaviour(f"{name} cannot be read as numbers ({one_line(error)})") from error


def _checked_box(space: Space[Any], value: Any, name: str) -> Array:
    assert space.dtype is not None
    array = as_array(value, name)
    if array.shape != space.shape:
        raise Misbehaviour(f"{name} has shape {array.shape}, but its space has {space.shape}")
    if not np.can_cast(array.dtype, space.dtype, "same_kind"):
        raise Misbehaviour(f"{name} is {array.dtype}, but its space is {space.dtype}")
    with np.errstate(over="ignore"):
        if not np.isfinite(array.astype(np.float32)).all():
            kind = "NaN" if np.isnan(array).any() else "numbers that are infinite or too large for float32"
            raise Misbehaviour(f"{name} contains {kind}")
    return array
