"""Bounds of what users and files may ask for: nothing that a float32 cannot hold, or that would never end.

A dataclass says them where it says its types: `discount: Annotated[float, Between(0, 0.999999)]`. Fields without bounds
of their own have those of their type.
"""

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from mrq.errors import MRQError

MOST_STEPS = 10_000_000_000
MOST_EPISODES = 100_000  # that an agent plays one after the other
MOST_ENVIRONMENTS = 10_000  # of one agent
MOST_AGENTS = 10_000  # that train together
LARGEST_SEED = 2**64 - 1
MOST_DIGITS = 30  # of a number in a sentence
KINDS: dict[type, str] = {bool: "True or False", int: "a whole number", float: "a number", str: "text"}


@dataclass(frozen=True)
class Between:
    """The least and the most that a number may be."""

    least: float
    most: float

    def __str__(self) -> str:
        return f"between {shown(self.least)} and {shown(self.most)}"

    def check(self, value: float, name: str) -> None:
        """Refuses a number outside of the bounds, and NaN."""
        if not self.least <= value <= self.most:
            raise MRQError(f"{name} is {shown(value)}; it must be {self}.")


BOUNDS: dict[type, Between] = {int: Between(1, MOST_STEPS), float: Between(1e-9, 10**9)}
Size = Annotated[int, Between(1, 65_536)]  # of a layer or a batch
Rate = Annotated[float, Between(0, 1e30)]  # any number of which 0 means none


def hyperparameter(name: str) -> str:
    """Returns what messages call a field of an algorithm's hyperparameters."""
    return f"the hyperparameter {name}"


def option(name: str) -> str:
    """Returns the command-line option of a field."""
    return f"--{name.replace('_', '-')}"


def check_fields(checked: Any, called: Callable[[str], str] = hyperparameter) -> None:
    """Refuses fields of a dataclass that are of another type than declared, or out of bounds."""
    check_values(type(checked), {field.name: getattr(checked, field.name) for field in fields(checked)}, called)


def check_values(kind: type, values: Mapping[str, Any], called: Callable[[str], str]) -> None:
    """Refuses values that fields of a dataclass cannot have; `called` returns what messages call a field."""
    hints = get_type_hints(kind, include_extras=True)
    for name, value in values.items():
        _check(value, hints[name], called(name))


def shown(value: Any) -> str:
    """Writes what somebody gave in a form that fits into a sentence."""
    if isinstance(value, float):
        return str(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return reprlib.repr(value)
    return f"{value:,}" if abs(value) < 10**MOST_DIGITS else f"a number of more than {MOST_DIGITS} digits"


def _check(value: Any, hint: Any, name: str) -> None:
    bounds = None
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        bounds = next((note for note in notes if isinstance(note, Between)), None)
    if get_origin(hint) is tuple:
        if not isinstance(value, tuple):
            raise MRQError(f"{name} is {shown(value)}; it must be a list.")
        for part in value:
            _check(part, get_args(hint)[0], name)
        return
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise MRQError(f"{name} is {shown(value)}; it must be {', '.join(get_args(hint))}.")
        return
    kinds = get_args(hint) or (hint,)
    if value is None and NoneType in kinds:
        return
    kind = kinds[0]
    if kind not in KINDS:
        return
    if not isinstance(value, int | float if kind is float else kind) or (kind is not bool and isinstance(value, bool)):
        raise MRQError(f"{name} is {shown(value)}; it must be {KINDS[kind]}.")
    bounds = bounds or BOUNDS.get(kind)
    if bounds is not None:
        bounds.check(value, name)
