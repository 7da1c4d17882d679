"""What an exported policy's inputs and outputs are called."""

from collections.abc import Iterator
from typing import Any

from gymnasium import Space, spaces

OBSERVATION, ACTION = "observation", "action"
EPISODE_START, NOISE = "episode_start", "noise"
STATE = "state."  # how inputs begin that are the outputs of the step before, which begin with NEXT
NEXT = "next_"


def named_leaves(space: Space[Any], name: str) -> Iterator[tuple[str, Space[Any]]]:
    """Yields the parts of a space with their names: keys, or places in tuples, with dots between them."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, part in parts:
            yield from named_leaves(part, f"{name}.{key}" if name else str(key))
    else:
        yield name, space
