"""The paper's 118 tasks (appendix B.3): what they are, in tasks.csv, and how each of their four suites is played."""

import csv
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

Suite = Literal["gym", "dmc", "dmc-visual", "atari"]


class Protocol(NamedTuple):
    """How long a suite's agents train, and how they are evaluated."""

    steps: int
    evaluate_every: int
    random_action: float = 0.0  # the chance that an action in evaluation is drawn at random, where actions are discrete


PROTOCOLS: dict[str, Protocol] = {
    "gym": Protocol(steps=1_000_000, evaluate_every=5_000),
    "dmc": Protocol(steps=500_000, evaluate_every=5_000),
    "dmc-visual": Protocol(steps=500_000, evaluate_every=5_000),
    "atari": Protocol(steps=2_500_000, evaluate_every=100_000, random_action=0.001),
}


class Task(NamedTuple):
    name: str  # with its suite, as `mrq train` takes it
    observation: str  # its shape
    actions: int  # their size, or how many there are to choose from

    @property
    def suite(self) -> str:
        return suite_of(self.name)

    @property
    def discrete(self) -> bool:
        return self.suite == "atari"

    @property
    def protocol(self) -> Protocol:
        return protocol_of(self.name)


def full_name(task: str) -> str:
    """With its suite, which is gym where the name says none."""
    return task if task.partition("/")[0] in PROTOCOLS else f"gym/{task}"


def suite_of(task: str) -> str:
    return full_name(task).partition("/")[0]


def protocol_of(task: str) -> Protocol:
    return PROTOCOLS[suite_of(task)]


@cache
def paper_tasks() -> tuple[Task, ...]:
    with files("mrq.environments").joinpath("tasks.csv").open() as file:
        return tuple(Task(row["task"], row["observation"], int(row["actions"])) for row in csv.DictReader(file))


def paper_task(name: str) -> Task:
    """Given with its suite or, in gym, without."""
    return next(task for task in paper_tasks() if task.name == full_name(name))


def names_in(suite: str) -> list[str]:
    """Of the paper's tasks."""
    return [task.name for task in paper_tasks() if task.suite == suite]
