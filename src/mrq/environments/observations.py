"""Observations as the networks see them: every part of a space becomes an image or numbers."""

from __future__ import annotations  # Gymnasium before 1.3 has no MultiDiscrete[Any]

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space, spaces

from mrq.bounds import shown
from mrq.environments.checks import Misbehaviour, checked_numbers
from mrq.environments.images import Layout, image_reader, layout_of
from mrq.environments.options import MOST_VALUES, EnvironmentOptions
from mrq.errors import MRQError
from mrq.interface import Array, Image

OBSERVATION = "the observation"
HISTORY = {1: 4, 3: 3}  # frames to stack, by channels per frame: grey as in Atari, RGB as in visual control
FEW = 16  # values of a symbol, at most
MOST_SYMBOL_ENTRIES = 4_096  # that one-hot symbols may have; larger grids stay numbers
CHARACTERS = "".join(map(chr, range(32, 127)))  # that text is encoded with


class Part(NamedTuple):
    """A part of an observation: an image, or numbers. What is left out has neither."""

    read: Callable[[Any, str], Array]  # its value and its name, to what the networks see
    image: Image | None = None
    numbers: int = 0
    history: int = 1  # frames to stack where the user does not choose
    remark: str = ""  # what the user may not expect


def parts_of(space: Space[Any], options: EnvironmentOptions) -> list[Part]:
    """Returns a space's parts, in its order."""
    parts = [_part(leaf, name, options) for leaf, name in _leaves(space, OBSERVATION)]
    if not any(part.image or part.numbers for part in parts):
        text = "; --text N shows agents its first N characters" if any(part.remark for part in parts) else ""
        raise MRQError(f"the observation space {space} has nothing that networks can see{text}.")
    return parts


def values_of(space: Space[Any], value: Any, name: str = OBSERVATION) -> Iterator[tuple[Any, str]]:
    """Yields the value and name of every part of an observation, in the space's order."""
    if isinstance(space, spaces.Tuple):
        if not isinstance(value, tuple | list) or len(value) != len(space.spaces):
            raise Misbehaviour(f"{name} is not a tuple of {len(space.spaces)} parts")
        for place, (part, item) in enumerate(zip(space.spaces, value, strict=True)):
            yield from values_of(part, item, f"the part {place} of {name}")
    elif isinstance(space, spaces.Dict):
        if not isinstance(value, dict) or value.keys() != space.spaces.keys():
            raise Misbehaviour(f"{name} is not a dict with the keys {', '.join(map(str, space.spaces))}")
        for key, part in space.spaces.items():
            yield from values_of(part, value[key], f"the part {key!r} of {name}")
    else:
        yield value, name


def unbatched(space: Space[Any], observations: Any) -> list[Any]:
    """Returns the observations of a batch, one by one."""
    if isinstance(space, spaces.Dict):
        parts = [unbatched(part, observations[key]) for key, part in space.spaces.items()]
        return [dict(zip(space.spaces, items, strict=True)) for items in zip(*parts, strict=True)]
    if isinstance(space, spaces.Tuple):
        pairs = zip(space.spaces, observations, strict=True)
        return list(zip(*[unbatched(part, items) for part, items in pairs], strict=True))
    return list(observations)


def _leaves(space: Space[Any], name: str) -> Iterator[tuple[Space[Any], str]]:
    if isinstance(space, spaces.Tuple):
        for place, part in enumerate(space.spaces):
            yield from _leaves(part, f"the part {place} of {name}")
    elif isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from _leaves(part, f"the part {key!r} of {name}")
    else:
        yield space, name


def _part(space: Space[Any], name: str, options: EnvironmentOptions) -> Part:
    if _is_text(space):
        return _text(name, options.text)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        values = int(space.n) if isinstance(space, spaces.Discrete) else sum(space.nvec.ravel().tolist())
        if values > MOST_VALUES:
            raise MRQError(
                f"{name} has {values:,} values, of which networks can see {MOST_VALUES:,} at most, one-hot; make it "
                "smaller, or a Box, with gymnasium.wrappers.TransformObservation."
            )
        return _discrete(space) if isinstance(space, spaces.Discrete) else _multi_discrete(space)
    if isinstance(space, spaces.MultiBinary):
        return _bits(space)
    if not isinstance(space, spaces.Box):
        raise MRQError(
            f"{name} is a {type(space).__name__}, whose size varies or is unknown; give it a fixed size, for example a "
            "Box, with gymnasium.wrappers.TransformObservation."
        )
    if layout := layout_of(space):
        return _image(space, name, layout, options.image_size)
    size = int(np.prod(space.shape))
    if size == 0:
        return Part(_nothing)
    if values := few_values(space):
        return _symbols(space, *values)
    return Part(lambda value, name: checked_numbers(space, value, name).astype(np.float32).ravel(), numbers=size)


def _image(space: Space[Any], name: str, layout: Layout, size: int) -> Part:
    image, read = image_reader(space, layout, size)
    remark = ""
    if (layout.height, layout.width) != (size, size):
        sides = f"{layout.width}x{layout.height} pixels"
        remark = f"{name} has {sides}, which are resized to {size}x{size}; --image-size chooses another size"
    return Part(
        lambda value, name: read(checked_numbers(space, value, name), name),
        image=image,
        history=1 if layout.frames else HISTORY.get(layout.channels, 1),
        remark=remark,
    )


def _text(name: str, characters: int) -> Part:
    if not characters:
        return Part(_nothing, remark=f"{name} is text and is left out; --text N shows agents its first N characters")

    def read(value: Any, name: str) -> Array:
        if not isinstance(value, str):
            raise Misbehaviour(f"{name} is {shown(value)}, which is not text")
        encoded = np.zeros((characters, len(CHARACTERS)), np.float32)
        for place, character in enumerate(value[:characters]):
            if (known := CHARACTERS.find(character)) >= 0:
                encoded[place, known] = 1
        return encoded.ravel()

    return Part(read, numbers=characters * len(CHARACTERS))


def _discrete(space: spaces.Discrete) -> Part:
    def read(value: Any, name: str) -> Array:
        _refuse_outside(space, value, name)
        return _one_hot(int(space.n), np.array([int(value) - int(space.start)]))

    return Part(read, numbers=int(space.n))


def _multi_discrete(space: spaces.MultiDiscrete[Any]) -> Part:
    sizes = space.nvec.ravel()
    starts = np.concatenate([[0], sizes.cumsum()[:-1]])

    def read(value: Any, name: str) -> Array:
        _refuse_outside(space, value, name)
        vector = np.zeros(int(sizes.sum()), np.float32)
        vector[starts + (np.asarray(value) - space.start).ravel()] = 1
        return vector

    return Part(read, numbers=int(sizes.sum()))


def _bits(space: spaces.MultiBinary) -> Part:
    def read(value: Any, name: str) -> Array:
        bits = checked_numbers(space, value, name)
        _refuse_outside(space, bits, name)
        return bits.astype(np.float32).ravel()

    return Part(read, numbers=int(np.prod(space.shape)))


def _symbols(space: spaces.Box, low: int, count: int) -> Part:
    def read(value: Any, name: str) -> Array:
        symbols = checked_numbers(space, value, name).ravel().astype(int) - low
        if symbols.min() < 0 or symbols.max() >= count:
            raise Misbehaviour(f"{name} contains {symbols.min() + low} to {symbols.max() + low}, outside of {space}")
        return _one_hot(count, symbols)

    return Part(read, numbers=count * int(np.prod(space.shape)))


def few_values(space: spaces.Box) -> tuple[int, int] | None:
    """Returns the least value and the number of values of a grid of symbols; None for other numbers."""
    assert space.dtype is not None
    if space.dtype.kind not in "iu" or len(space.shape) < 2:
        return None
    low, high = int(space.low.min()), int(space.high.max())
    count = high - low + 1
    symbolic = 2 < count <= FEW and count * int(np.prod(space.shape)) <= MOST_SYMBOL_ENTRIES
    return (low, count) if symbolic else None


def _is_text(space: Space[Any]) -> bool:
    """Says whether a space holds text; packages have text spaces of their own, such as MiniGrid's missions."""
    return space.dtype is not None and space.dtype.kind == "U"


def _refuse_outside(space: Space[Any], value: Any, name: str) -> None:
    try:
        inside = space.contains(value)
    except Exception:  # Gymnasium's own, of a ragged list
        inside = False
    if not inside:
        raise Misbehaviour(f"{name} is {shown(value)}, which is not in {space}")


def _one_hot(size: int, indices: Array) -> Array:
    vectors = np.zeros((len(indices), size), np.float32)
    vectors[np.arange(len(indices)), indices] = 1
    return vectors.ravel()


def _nothing(value: Any, name: str) -> Array:
    return np.zeros(0, np.float32)
