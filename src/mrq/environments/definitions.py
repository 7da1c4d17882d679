"""Spaces as run.json defines them: enough to translate observations and actions without the environment."""

from __future__ import annotations  # Gymnasium before 1.3 has no MultiDiscrete[Any]

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from mrq.environments.observations import CHARACTERS
from mrq.environments.options import LONGEST_TEXT
from mrq.interface import Array

DTYPES = {np.dtype(name).name: np.dtype(name) for name in "?bBhHiIlLefd"}
MOST_ENTRIES = 50_000_000  # of all parts together, so that a stranger's definition cannot fill the memory
LONGEST_BOUNDS = 1_000_000  # characters, of which a run.json cannot hold any number
Definition = Mapping[str, Any]


def definition_of(space: Space[Any]) -> dict[str, Any]:
    """Returns a space that networks can see or choose from, as JSON; raises ValueError where that is too long."""
    match space:
        case spaces.Dict():
            return {"kind": "Dict", "parts": [[_key(key), definition_of(part)] for key, part in space.spaces.items()]}
        case spaces.Tuple():
            return {"kind": "Tuple", "parts": [definition_of(part) for part in space.spaces]}
        case spaces.Discrete():
            return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
        case spaces.MultiDiscrete():
            own = {"nvec": space.nvec.tolist(), "start": space.start.tolist(), "dtype": _name(space)}
            return {"kind": "MultiDiscrete", **own}
        case spaces.MultiBinary():
            return {"kind": "MultiBinary", "shape": list(space.shape)}
        case spaces.Box():
            own = {"shape": list(space.shape), "dtype": _name(space)}
            return {"kind": "Box", **own, "low": _bounds(space.low), "high": _bounds(space.high)}
    return {"kind": "Text"}  # of any package's own class


def defined_space(definition: Definition) -> Space[Any]:
    """Returns the space that a definition describes; raises one of DAMAGE where it describes none."""
    if sum(_entries(definition)) > MOST_ENTRIES:
        raise ValueError(f"the space has more than {MOST_ENTRIES:,} entries")
    return _space(definition)


def _space(definition: Definition) -> Space[Any]:
    match definition["kind"]:
        case "Dict":
            return spaces.Dict([(key, _space(part)) for key, part in definition["parts"]])
        case "Tuple":
            return spaces.Tuple([_space(part) for part in definition["parts"]])
        case "Discrete":
            return spaces.Discrete(int(definition["n"]), start=int(definition["start"]))
        case "MultiDiscrete":
            dtype: Any = DTYPES[definition["dtype"]]
            return spaces.MultiDiscrete(np.array(definition["nvec"]), dtype, start=np.array(definition["start"]))
        case "MultiBinary":
            return spaces.MultiBinary([int(side) for side in definition["shape"]])
        case "Box":
            shape, dtype = tuple(map(int, definition["shape"])), DTYPES[definition["dtype"]]
            low, high = (_array(definition[bounds], shape, dtype) for bounds in ("low", "high"))
            return spaces.Box(low, high, shape, dtype.type)
        case "Text":
            return spaces.Text(LONGEST_TEXT, min_length=0, charset=CHARACTERS)
        case kind:
            raise ValueError(f"there is no space {kind!r}")


def _entries(definition: Definition) -> Iterator[int]:
    """Yields how many entries each part has."""
    for part in definition.get("parts", ()):
        yield from _entries(part[1] if definition["kind"] == "Dict" else part)
    yield abs(math.prod(map(int, definition.get("shape", ()))))


def _key(key: Any) -> Any:
    return key if isinstance(key, str | int) else str(key)


def _name(space: Space[Any]) -> str:
    assert space.dtype is not None
    return space.dtype.name


def _bounds(bounds: Array) -> str:
    """Returns the bounds of all entries as text, which has infinity: one number where they are equal."""
    numbers = [str(+number) for number in bounds.ravel().tolist()]
    text = numbers[0] if len(set(numbers)) == 1 else " ".join(numbers)
    if len(text) > LONGEST_BOUNDS:
        raise ValueError("the space has too many different bounds")
    return text


def _array(bounds: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    numbers = [float(number) if dtype.kind == "f" else int(number) for number in bounds.split()]
    return np.full(shape, numbers[0], dtype) if len(numbers) == 1 else np.array(numbers, dtype).reshape(shape)
