"""Spaces from run.json: equal to those that were written, and nothing that a stranger wrote fills the memory."""

import json
from typing import Any

import numpy as np
import pytest
from gymnasium import Space, spaces
from hypothesis import given, settings

from mrq.environments.definitions import defined_space, definition_of
from mrq.errors import DAMAGE
from tests.environments.test_spaces_properties import ACTIONS, OBSERVATIONS, leaves


def again(space: Space[Any]) -> Space[Any]:
    return defined_space(json.loads(json.dumps(definition_of(space))))


@settings(deadline=None)
@given(OBSERVATIONS, ACTIONS)
def test_a_space_is_the_same_again(seen, chosen):
    for space in (seen.space, chosen.space):
        found = again(space)
        own = leaves(space)
        assert [type(leaf) for leaf in leaves(found)] == [type(leaf) for leaf in own]
        for ours, theirs in zip(own, leaves(found), strict=True):
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            if not isinstance(ours, spaces.Text | spaces.MultiBinary):  # all texts are alike to networks
                assert ours == theirs


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(np.array([-np.inf, 0.1, 1 / 3]), np.array([2.5, np.inf, 1e30]), dtype=np.float64),
        spaces.Box(-np.inf, np.inf, (2, 3), np.float32),
        spaces.Box(0, 1, (2,), np.bool_),
        spaces.Box(np.zeros((40, 40), np.float32), np.arange(1600, dtype=np.float32).reshape(40, 40), dtype=np.float32),
        spaces.MultiDiscrete(np.array([[2, 3], [4, 5]]), start=np.array([[0, -1], [7, 2]])),
        spaces.Dict({"z": spaces.Discrete(2), "a": spaces.Tuple([spaces.MultiBinary((2, 2))])}),
        spaces.Dict([("z", spaces.Discrete(2)), ("a", spaces.Discrete(3))]),
    ],
    ids=lambda space: type(space).__name__,
)
def test_bounds_starts_and_orders_are_kept(space):
    found = again(space)
    assert found == space
    if isinstance(space, spaces.Dict):
        assert list(found.spaces) == list(space.spaces)


def test_a_packages_own_text_is_text():
    class Missions(spaces.Space[str]):
        def __init__(self) -> None:
            super().__init__(dtype=str)

    assert again(Missions()).contains("open the door")


def test_bounds_that_are_too_many_have_no_definition():
    high = np.random.default_rng(0).random((400, 400))
    with pytest.raises(ValueError, match="too many different bounds"):
        definition_of(spaces.Box(np.zeros_like(high), high, dtype=np.float64))


BOX = {"kind": "Box", "shape": [3], "dtype": "float32", "low": "0", "high": "1"}


@pytest.mark.parametrize(
    "definition",
    [
        BOX | {"shape": [10**12]},
        {"kind": "Tuple", "parts": [BOX | {"shape": [-(10**12), 1]}, BOX | {"shape": [10**12]}]},
        {"kind": "Dict", "parts": [["a", BOX | {"shape": [10**6, 10**6]}]]},
        {"kind": "MultiBinary", "shape": [10**6, 10**6]},
        BOX | {"dtype": "object"},
        BOX | {"low": "0 0"},
        BOX | {"low": ""},
        BOX | {"low": "__import__('os')"},
        {"kind": "Discrete", "n": 0, "start": 0},
        {"kind": "Graph"},
        {},
        [],
    ],
    ids=str,
)
def test_what_defines_no_space_is_refused_before_it_takes_memory(definition):
    with pytest.raises((AssertionError, *DAMAGE)):
        defined_space(definition)
