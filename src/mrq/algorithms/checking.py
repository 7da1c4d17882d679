"""Checks of hyperparameters that every algorithm needs: types, signs and sizes."""

from collections.abc import Container
from dataclasses import fields
from typing import Any

from mrq.errors import MRQError

LARGEST_SIZE = 65_536
KINDS: dict[type, tuple[Any, str]] = {
    bool: (bool, "True or False"),
    int: (int, "a whole number"),
    float: (int | float, "a number"),
}


def check_fields(hyperparameters: Any, may_be_zero: Container[str] = (), sizes: Container[str] = ()) -> None:
    """Refuses fields of another type than their default, numbers that are not positive, and sizes beyond reason."""
    for field in fields(hyperparameters):
        value = getattr(hyperparameters, field.name)
        kind, words = KINDS[type(field.default)]
        if not isinstance(value, kind):
            raise MRQError(f"the hyperparameter {field.name} is {value!r}; it must be {words}.")
        if isinstance(value, bool):
            continue
        zero = field.name in may_be_zero
        if not (value > 0 or (value == 0 and zero)) or value == float("inf"):
            bound = "0 or more" if zero else "above 0"
            raise MRQError(f"the hyperparameter {field.name} is {value}; it must be a finite number {bound}.")
        if field.name in sizes and value > LARGEST_SIZE:
            raise MRQError(f"the hyperparameter {field.name} is {value:,}; it must be at most {LARGEST_SIZE:,}.")


def check_discount(discount: float) -> None:
    """Refuses a discount of 1 or more."""
    if discount >= 1:
        raise MRQError(f"the discount is {discount}; it must be below 1.")


def check_start(random_steps: int, horizon: int) -> None:
    """Refuses to begin training before a single window can be sampled."""
    if random_steps < horizon:
        raise MRQError(
            f"random_steps is {random_steps}; training cannot begin before the "
            f"{horizon} steps of one window have been taken."
        )
