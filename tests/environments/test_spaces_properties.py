"""Random spaces, there and back: observations to frames to what networks see, and random actions to environments'."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from gymnasium import Space, spaces
from gymnasium.vector.utils import concatenate, create_empty_array
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mrq.algorithms.mrq.noise import acting_noise
from mrq.algorithms.observed import allowed_actions, observed
from mrq.environments.options import EnvironmentOptions
from mrq.environments.spaces import Translator
from mrq.errors import MRQError

SIDE = 32  # of images, so that none is resized
BOX = spaces.Box(-1, 1, (2,), np.float32)
SEEDS = st.integers(0, 2**32 - 1)
FLOATS = st.sampled_from([np.float16, np.float32, np.float64])
INTEGERS = st.sampled_from([np.int8, np.int32, np.int64])
SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)
SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=3)


class Seen(NamedTuple):
    """A space, and what networks must see of one of its values: lists of numbers and of images."""

    space: Space[Any]
    of: Callable[[Any], tuple[list[float], list[np.ndarray]]]


def numbers(space: Space[Any]) -> Seen:
    return Seen(space, lambda value: (np.asarray(value, np.float32).ravel().tolist(), []))


def one_hot(space: Space[Any], sizes: Any, starts: Any) -> Seen:
    def of(value: Any) -> tuple[list[float], list[np.ndarray]]:
        places = np.atleast_1d(np.asarray(value) - starts).ravel()
        return [float(place == option) for place, size in zip(places, sizes, strict=True) for option in range(size)], []

    return Seen(space, of)


def discrete(size: int, start: int) -> Seen:
    return one_hot(spaces.Discrete(size, start=start), [size], start)


def multi_discrete(sizes: list[int]) -> Seen:
    return one_hot(spaces.MultiDiscrete(sizes), sizes, 0)


def symbols(rows: int, columns: int, low: int, count: int, dtype: Any) -> Seen:
    space = spaces.Box(low, low + count - 1, (rows, columns), dtype)
    return one_hot(space, [count] * rows * columns, low)


def image(channels: int, last: bool) -> Seen:
    shape = (SIDE, SIDE, channels) if last else (channels, SIDE, SIDE)
    space = spaces.Box(0, 255, shape, np.uint8)
    return Seen(space, lambda value: ([], [np.moveaxis(value, -1, 0) if last else value]))


def joined(parts: list[Seen], as_dict: bool) -> Seen:
    def of(value: Any) -> tuple[list[float], list[np.ndarray]]:
        values = list(value.values()) if as_dict else value
        seen = [part.of(own) for part, own in zip(parts, values, strict=True)]
        return [number for own, _ in seen for number in own], [picture for _, own in seen for picture in own]

    own = [part.space for part in parts]
    return Seen(
        spaces.Dict({f"p{place}": part for place, part in enumerate(own)}) if as_dict else spaces.Tuple(own), of
    )


LEAVES = st.one_of(
    st.builds(lambda shape, dtype: numbers(spaces.Box(-3, 5, shape, dtype)), SHAPES, FLOATS),
    st.builds(lambda size, dtype: numbers(spaces.Box(-9, 9, (size,), dtype)), st.integers(0, 3), INTEGERS),
    st.builds(symbols, st.integers(1, 3), st.integers(1, 3), st.integers(-9, 9), st.integers(3, 16), INTEGERS),
    st.builds(lambda shape: numbers(spaces.MultiBinary(shape)), st.lists(st.integers(1, 3), min_size=1, max_size=2)),
    st.builds(discrete, st.integers(1, 5), st.integers(-7, 7)),
    st.builds(multi_discrete, SIZES),
    st.builds(image, st.sampled_from([1, 3, 4]), st.booleans()),
    st.just(Seen(spaces.Text(5), lambda value: ([], []))),
)
OBSERVATIONS = st.recursive(
    LEAVES, lambda parts: st.builds(joined, st.lists(parts, min_size=1, max_size=3), st.booleans()), max_leaves=5
)


@settings(deadline=None)
@given(OBSERVATIONS, st.integers(1, 3), st.booleans(), st.booleans(), SEEDS)
def test_networks_see_each_part_of_an_observation(seen, history, action_history, masked, seed):
    rng = np.random.default_rng(seed)
    seen.space.seed(seed)
    values = [seen.space.sample() for _ in range(history)]
    options = EnvironmentOptions(image_size=SIDE, history=history, action_history=action_history)
    if seen.of(values[0]) == ([], []):
        with pytest.raises(MRQError, match="nothing that networks can see"):
            Translator(seen.space, BOX, options)
        return
    translator = Translator(seen.space, spaces.MultiDiscrete([2, 3]), options, masked)
    actions = acting_noise(rng, history, translator.spec)["random_actions"]
    masks = rng.integers(0, 2, (history, 5))
    frames = [
        translator.frame(value, action, translator.mask(mask))
        for value, action, mask in zip(values, actions, masks, strict=True)
    ]
    for frame in frames:
        assert (frame.shape, frame.dtype) == (translator.spec.frame_shape, translator.spec.frame_dtype)
    parts = observed(torch.from_numpy(np.concatenate(frames))[None], translator.spec)
    expected = [seen.of(value) for value in values]
    rows = [own + action.tolist() * action_history for (own, _), action in zip(expected, actions, strict=True)]
    found = [] if parts.numbers is None else parts.numbers[0].view(-1, history).T.tolist()
    assert (found or [[]] * history) == rows
    assert len(parts.images) == len(expected[0][1])
    for place, picture in enumerate(parts.images):
        np.testing.assert_array_equal(picture[0], np.concatenate([images[place] for _, images in expected]))
    if masked:
        own = torch.ones(5, dtype=torch.bool)
        found = allowed_actions(torch.from_numpy(np.concatenate(frames))[None], translator.spec, own)[0].tolist()
        first, second = masks[-1][:2] > 0, masks[-1][2:] > 0
        assert found == [*(first | (not first.any())), *(second | (not second.any()))]


@settings(deadline=None, max_examples=50)
@given(OBSERVATIONS, st.integers(1, 4), SEEDS)
def test_a_batch_of_observations_is_each_of_them(seen, count, seed):
    seen.space.seed(seed)
    values = [seen.space.sample() for _ in range(count)]
    assume(seen.of(values[0]) != ([], []))
    translator = Translator(seen.space, BOX, EnvironmentOptions(image_size=SIDE))
    batch = concatenate(seen.space, values, create_empty_array(seen.space, count))
    frames, batched = translator.frames(batch)
    assert batched
    np.testing.assert_array_equal(frames, np.stack([translator.frame(value) for value in values]))


class Chosen(NamedTuple):
    """A space, and what networks must have chosen for one of its values: entries in [-1, 1] and options."""

    space: Space[Any]
    of: Callable[[Any], tuple[list[float], list[tuple[int, int]]]]  # each option with how many there are


def bounded(shape: tuple[int, ...], dtype: Any, seed: int) -> Chosen:
    rng = np.random.default_rng(seed)
    low = rng.uniform(-10, 10, shape).astype(dtype)
    high = low + rng.choice([0, 0.5, 7], shape).astype(dtype)
    span = (np.asarray(high, float) - low).ravel()

    def of(value: np.ndarray) -> tuple[list[float], list[tuple[int, int]]]:
        above = (np.asarray(value, float) - low).ravel()
        return [2 * a / s - 1 if s else np.nan for a, s in zip(above, span, strict=True)], []

    return Chosen(spaces.Box(low, high, dtype=dtype), of)


def options(space: Space[Any], sizes: Any, starts: Any) -> Chosen:
    def of(value: Any) -> tuple[list[float], list[tuple[int, int]]]:
        return [], list(zip(np.atleast_1d(np.asarray(value) - starts).ravel().tolist(), sizes, strict=True))

    return Chosen(space, of)


def choices(sizes: list[int], start: int) -> Chosen:
    return options(spaces.MultiDiscrete(sizes, start=[start] * len(sizes)), sizes, start)


def whole_numbers(size: int, low: int, count: int, dtype: Any) -> Chosen:
    return options(spaces.Box(low, low + count - 1, (size,), dtype), [count] * size, low)


def together(parts: list[Chosen], as_dict: bool) -> Chosen:
    def of(value: Any) -> tuple[list[float], list[tuple[int, int]]]:
        values = list(value.values()) if as_dict else value
        chosen = [part.of(own) for part, own in zip(parts, values, strict=True)]
        return [entry for own, _ in chosen for entry in own], [option for _, own in chosen for option in own]

    own = [part.space for part in parts]
    return Chosen(spaces.Dict({f"p{i}": part for i, part in enumerate(own)}) if as_dict else spaces.Tuple(own), of)


ACTIONS = st.recursive(
    st.one_of(
        st.builds(bounded, st.lists(st.integers(1, 3), max_size=2).map(tuple), FLOATS, SEEDS),
        st.builds(lambda n, start: options(spaces.Discrete(n, start=start), [n], start), st.integers(1, 5), SEEDS),
        st.builds(choices, SIZES, st.integers(-5, 5)),
        st.builds(lambda n: options(spaces.MultiBinary(n), [2] * n, 0), st.integers(1, 4)),
        st.builds(whole_numbers, st.integers(1, 3), st.integers(-9, 9), st.integers(1, 5), INTEGERS),
    ),
    lambda parts: st.builds(together, st.lists(parts, min_size=1, max_size=3), st.booleans()),
    max_leaves=5,
)


@settings(deadline=None)
@given(ACTIONS, SEEDS)
def test_random_actions_are_in_the_space_and_lead_back(chosen, seed):
    translator = Translator(BOX, chosen.space)
    spec = translator.spec
    drawn = acting_noise(np.random.default_rng(seed), 5, spec)["random_actions"]
    for action in [*drawn, *np.where(drawn > 0, 1, drawn), *np.where(drawn < 0, -1, drawn)]:
        made = translator.action(action)
        assert chosen.space.contains(made)
        entries, picked = chosen.of(made)
        tolerance = 0.05 if any(leaf.dtype == np.float16 for leaf in leaves(chosen.space)) else 1e-4
        usable = ~np.isnan(entries)  # bounds may be equal
        np.testing.assert_allclose(action[: spec.continuous][usable], np.array(entries)[usable], atol=tolerance)
        assert spec.choices == tuple(size for _, size in picked)
        expected = [float(option == place) for option, size in picked for place in range(size)]
        assert action[spec.continuous :].tolist() == expected


def leaves(space: Space[Any]) -> list[Space[Any]]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        own = space.values() if isinstance(space, spaces.Dict) else space
        return [leaf for part in own for leaf in leaves(part)]
    return [space]
