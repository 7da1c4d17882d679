"""The paper's tables as data: reference/*.csv, whose first lines say where each is from."""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from mrq.report.intervals import Estimate


class Normalisation(NamedTuple):
    random: float
    reference: float  # what counts as 1


@cache
def results() -> dict[tuple[str, ...], Estimate]:
    """What an algorithm reached, by task and algorithm. The means are cut to whole numbers, not rounded."""
    return _estimates("results", "task", "algorithm")


@cache
def aggregates() -> dict[tuple[str, ...], Estimate]:
    """An algorithm's scores over a suite, by suite, aggregate and algorithm; for DeepMind Control, plain returns."""
    return _estimates("aggregates", "suite", "aggregate", "algorithm")


@cache
def design_study() -> dict[tuple[str, ...], Estimate]:
    """What a variant changes in a suite's mean score, by variant and suite; in Atari after 1M steps."""
    return _estimates("design_study", "variant", "suite")


@cache
def normalisation() -> dict[str, Normalisation]:
    return {row["task"]: Normalisation(float(row["random"]), float(row["reference"])) for row in _rows("normalisation")}


def _estimates(name: str, *keys: str) -> dict[tuple[str, ...], Estimate]:
    numbers = ("mean", "low", "high")
    return {tuple(row[k] for k in keys): Estimate(*(float(row[n]) for n in numbers)) for row in _rows(name)}


def _rows(name: str) -> list[dict[str, str]]:
    with files("mrq.report").joinpath("reference", f"{name}.csv").open() as file:
        next(file)  # where it is from
        return list(csv.DictReader(file))
