"""The paper's 118 tasks (appendix B.3), listed in tasks.csv, and how agents train and are evaluated on each suite."""

import csv
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

Suite = Literal["gym", "dmc", "dmc-visual", "atari"]


class Protocol(NamedTuple):
    """How many steps a suite's agents train, and how they are evaluated."""

    steps: int
    evaluate_every: int
    random_action: float = 0.0  # in evaluations with discrete actions, the probability that an action is random


PROTOCOLS: dict[str, Protocol] = {
    "gym": Protocol(steps=1_000_000, evaluate_every=5_000),
    "dmc": Protocol(steps=500_000, evaluate_every=5_000),
    "dmc-visual": Protocol(steps=500_000, evaluate_every=5_000),
    "atari": Protocol(steps=2_500_000, evaluate_every=100_000, random_action=0.001),
}
ATARI_STUDY_STEPS = 1_000_000


class Task(NamedTuple):
    """One of the paper's tasks."""

    name: str  # with its suite, as `mrq train` accepts it
    observation: str  # its shape
    actions: int  # entries of a continuous action, or number of discrete actions

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
    """Returns the task's name with its suite, which is gym if the name has none."""
    return task if task.partition("/")[0] in PROTOCOLS else f"gym/{task}"


def suite_of(task: str) -> str:
    """Returns the suite that a task belongs to; a user's own task counts as gym."""
    return full_name(task).partition("/")[0]


def protocol_of(task: str) -> Protocol:
    """Returns how agents train and are evaluated on a task."""
    return PROTOCOLS[suite_of(task)]


def study_steps(suite: str) -> int:
    """Returns the step at which the paper's design study compares its variants."""
    return ATARI_STUDY_STEPS if suite == "atari" else PROTOCOLS[suite].steps


@cache
def paper_tasks() -> tuple[Task, ...]:
    """Returns all 118 tasks, in the order of tasks.csv."""
    with files("mrq.environments").joinpath("tasks.csv").open() as file:
        return tuple(Task(row["task"], row["observation"], int(row["actions"])) for row in csv.DictReader(file))


def paper_task(name: str) -> Task:
    """Returns the paper's task of this name; the suite gym may be omitted."""
    return next(task for task in paper_tasks() if task.name == full_name(name))


def names_in(suite: str) -> list[str]:
    """Returns the names of the paper's tasks in a suite."""
    return [task.name for task in paper_tasks() if task.suite == suite]


def module_of(task: str) -> str:
    """Returns the module whose code a task outside the suites runs when it is made; "" if it names none."""
    module, colon, _ = task.removeprefix("gym/").partition(":")
    return module if colon and suite_of(task) == "gym" else ""
