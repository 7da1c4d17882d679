"""The paper's tables as data: reference/*.csv, whose first lines name their source."""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from mrq.report.intervals import Estimate


class Normalisation(NamedTuple):
    """The returns that count as 0 and as 1 on a task."""

    random: float
    reference: float


@cache
def results() -> dict[tuple[str, ...], Estimate]:
    """Returns the algorithms' returns by task and algorithm. The paper truncates the means to whole numbers."""
    return _estimates("results", "task", "algorithm")


@cache
def aggregates() -> dict[tuple[str, ...], Estimate]:
    """Returns the algorithms' scores by suite, aggregate and algorithm. DeepMind Control's are returns."""
    return _estimates("aggregates", "suite", "aggregate", "algorithm")


@cache
def design_study() -> dict[tuple[str, ...], Estimate]:
    """Returns how much a variant changes a suite's mean score, by variant and suite. Atari's are after 1M steps."""
    return _estimates("design_study", "variant", "suite")


@cache
def normalisation() -> dict[str, Normalisation]:
    """Returns the random and reference returns by task."""
    return {row["task"]: Normalisation(float(row["random"]), float(row["reference"])) for row in _rows("normalisation")}


def _estimates(name: str, *keys: str) -> dict[tuple[str, ...], Estimate]:
    numbers = ("mean", "low", "high")
    return {tuple(row[k] for k in keys): Estimate(*(float(row[n]) for n in numbers)) for row in _rows(name)}


def _rows(name: str) -> list[dict[str, str]]:
    with files("mrq.report").joinpath("reference", f"{name}.csv").open() as file:
        next(file)  # the line that names the source
        return list(csv.DictReader(file))
