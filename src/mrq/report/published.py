"""The paper's tables as data: reference/*.csv, whose first lines say where each is from."""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Result(NamedTuple):
    """What an algorithm reached on a task, with a 95% interval. The means are cut to whole numbers, not rounded."""

    task: str
    algorithm: str
    mean: float
    low: float
    high: float


class Aggregate(NamedTuple):
    """An algorithm's normalised scores over a suite; for DeepMind Control, plain returns."""

    suite: str
    aggregate: str  # Mean, Median or IQM
    algorithm: str
    mean: float
    low: float
    high: float


class Difference(NamedTuple):
    """What a variant of the design study changes in a suite's mean score; in Atari after 1M steps."""

    variant: str
    suite: str
    mean: float
    low: float
    high: float


class Normalisation(NamedTuple):
    random: float
    reference: float  # what counts as 1


def results() -> list[Result]:
    return [
        Result(row["task"], row["algorithm"], *(float(row[n]) for n in ("mean", "low", "high")))
        for row in _rows("results")
    ]


def aggregates() -> list[Aggregate]:
    return [
        Aggregate(row["suite"], row["aggregate"], row["algorithm"], *(float(row[n]) for n in ("mean", "low", "high")))
        for row in _rows("aggregates")
    ]


def design_study() -> list[Difference]:
    return [
        Difference(row["variant"], row["suite"], *(float(row[n]) for n in ("difference", "low", "high")))
        for row in _rows("design_study")
    ]


@cache
def normalisation() -> dict[str, Normalisation]:
    return {row["task"]: Normalisation(float(row["random"]), float(row["reference"])) for row in _rows("normalisation")}


def _rows(name: str) -> list[dict[str, str]]:
    with files("mrq.report").joinpath("reference", f"{name}.csv").open() as file:
        next(file)  # where it is from
        return list(csv.DictReader(file))
