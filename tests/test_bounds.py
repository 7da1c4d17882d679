"""What numbers may be, wherever they come from."""

from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal

import pytest

from mrq import MRQError
from mrq.algorithms.registry import ALGORITHMS, algorithm_named
from mrq.benchmark.cluster import Cluster
from mrq.bounds import Between, Rate, check_fields
from mrq.training.settings import Settings, checked_seeds


@dataclass(frozen=True)
class Fields:
    size: Annotated[int | None, Between(2, 5)] = 2
    count: int = 1
    rate: Rate = 0.0
    flag: bool = True
    name: str = "x"
    choice: Literal["a", "b"] = "a"
    rest: Any = None


def test_fields_within_their_bounds_are_accepted():
    for changes in ({}, {"size": None}, {"size": 5, "rate": 3}, {"choice": "b", "rest": object()}):
        check_fields(replace(Fields(), **changes))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"size": 1}, "the hyperparameter size is 1; it must be between 2 and 5."),
        ({"size": True}, "the hyperparameter size is True; it must be a whole number."),
        ({"count": 2.0}, "the hyperparameter count is 2.0; it must be a whole number."),
        ({"count": None}, "the hyperparameter count is None; it must be a whole number."),
        ({"count": -(10**5_000)}, "the hyperparameter count is a number of more than 30 digits; it must be between"),
        ({"rate": float("nan")}, "the hyperparameter rate is nan; it must be between 0 and 1e+30."),
        ({"rate": 10**400}, "the hyperparameter rate is a number of more than 30 digits; it must be between 0 and"),
        ({"flag": 1}, "the hyperparameter flag is 1; it must be True or False."),
        ({"name": ["x"]}, "the hyperparameter name is ['x']; it must be text."),
        ({"choice": []}, "the hyperparameter choice is []; it must be a, b."),
    ],
)
def test_others_are_refused_with_a_sentence(changes, sentence):
    with pytest.raises(MRQError) as error:
        check_fields(replace(Fields(), **changes))
    assert str(error.value).startswith(sentence)


EXTREMES = (float("nan"), float("inf"), -1.0, 1e308, -1, 10**40, 10**400, "text", [], {})
CHECKED = [Settings(), Cluster(), *(algorithm_named(name).hyperparameters() for name in ALGORITHMS)]
SIGNED = ("stop_at_return",)
NOT_NUMBERS = ("environment", "hyperparameters", "device", "address")


@pytest.mark.parametrize(
    ("given", "name"),
    [(given, field.name) for given in CHECKED for field in fields(given) if field.name not in NOT_NUMBERS],
)
def test_no_setting_takes_an_extreme_value(given, name):
    for extreme in EXTREMES:
        if name in SIGNED and extreme == -1:
            continue
        with pytest.raises(MRQError, match=rf"{name.replace('_', '.')} is "):
            replace(given, **{name: extreme})


@pytest.mark.parametrize("seeds", [(), (-1,), (1, 1), (2**64,), (10**5_000,), (1.5,), tuple(range(10_001))])
def test_seeds_that_no_agent_can_have_are_refused(seeds):
    with pytest.raises(MRQError, match=r"^(the seeds are \[|there are 10,001 seeds)"):
        checked_seeds(seeds)
