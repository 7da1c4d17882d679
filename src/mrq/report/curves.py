"""Learning curves as numbers: at each step the mean over seeds, its 95% interval, its hours, and how many seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from mrq.benchmark.variants import DEFAULT, VARIANTS
from mrq.environments.tasks import paper_tasks
from mrq.interface import Array
from mrq.report import published
from mrq.report.intervals import Estimate, estimate_curve
from mrq.report.records import Record
from mrq.report.scores import score, unit_of
from mrq.report.suites import NAMES
from mrq.report.tables import SuiteTable, algorithms, goal_of

MOST_POINTS = 101  # of a curve: more than a figure can show


@dataclass(frozen=True)
class Curve:
    """Of the seeds that have come to their last step, or of those that have not: never of both."""

    algorithm: str
    seeds: int  # at every step; the fewest that a task has
    finished: bool
    steps: Array  # where all of these seeds were evaluated
    mean: Array
    low: Array
    high: Array
    hours: Array | None  # of training before each step, a run's on average; None where those of a run are unknown


@dataclass(frozen=True)
class Panel:
    """The curves of a task, or of a suite's mean score."""

    name: str  # of the task, or of the suite
    title: str
    unit: str
    goal: int | None  # the last step, where the paper has its results
    curves: list[Curve]
    paper: Estimate | None  # MR.Q in the paper, at the goal; None where no run has come to it

    @property
    def timed(self) -> set[str]:
        """The algorithms whose hours are known; the design study's variants are none."""
        return {curve.algorithm for curve in self.curves if curve.hours is not None} - VARIANTS.keys()


def task_panels(records: Sequence[Record]) -> list[Panel]:
    """In the paper's order, then those that it does not have."""
    by_task: dict[str, list[Record]] = {}
    for record in records:
        by_task.setdefault(record.task, []).append(record)
    order = [task.name for task in paper_tasks() if task.name in by_task]
    results = published.results()
    made = []
    for task in [*order, *sorted(set(by_task) - set(order))]:
        goal = goal_of(DEFAULT, task)
        curves = [
            curve
            for algorithm in algorithms(by_task[task])
            for finished in (True, False)
            if (curve := _curve([_group(by_task[task], algorithm, task, finished)], algorithm, finished)) is not None
        ]
        made.append(
            Panel(task, task, "return", goal, curves, results.get((task, DEFAULT)) if _reached(curves, goal) else None)
        )
    return [panel for panel in made if panel.curves]


def suite_panels(records: Sequence[Record], tables: Sequence[SuiteTable]) -> list[Panel]:
    """Mean scores over the tasks that the suite's aggregates are of."""
    made = []
    for table in tables:
        curves = []
        for algorithm in table.ours:
            groups = [_group(records, algorithm, task, True, table.steps) for task in table.covered]
            if (curve := _curve(groups, algorithm, True, normalised=True)) is not None:
                curves.append(curve)
        title, unit = NAMES[table.suite]
        paper = _aggregate(table.suite) if table.whole else None
        title = f"{title}: mean of {len(table.covered)}{'' if paper else f' of {len(table.rows)}'} tasks"
        made.append(Panel(table.suite, title, unit, table.steps, curves, paper))
    return [panel for panel in made if panel.curves]


def _group(
    records: Sequence[Record], algorithm: str, task: str, finished: bool, goal: int | None = None
) -> list[Record]:
    """The seeds that have come to the goal, or those that have not; where there is no goal, none has come to it."""
    goal = goal or goal_of(algorithm, task)
    own = [record for record in records if record.algorithm == algorithm and record.task == task]
    return [record for record in own if (goal is not None and record.at(goal) is not None) == finished]


def _curve(
    groups: Sequence[Sequence[Record]], algorithm: str, finished: bool, normalised: bool = False
) -> Curve | None:
    """Of tasks' seeds; None where a task has none, or where they share no step."""
    if not all(groups):
        return None
    members = [record for group in groups for record in group]
    steps = reduce(np.intersect1d, (record.steps for record in members))
    steps = steps[::-1][:: math.ceil(len(steps) / MOST_POINTS) or 1][::-1]  # the last is always among them
    if not len(steps):
        return None
    tasks = [np.array([record.returns[np.searchsorted(record.steps, steps)] for record in own]) for own in groups]
    hours = _hours(groups, steps)
    if normalised:
        tasks = [score(own[0].task, returns) for own, returns in zip(groups, tasks, strict=True)]
    return Curve(algorithm, min(map(len, groups)), finished, steps, *estimate_curve(tasks), hours)


def _hours(groups: Sequence[Sequence[Record]], steps: Array) -> Array | None:
    """At each step the mean of a task's seeds, and of tasks, as returns are: so a line has one time a step."""
    if not all(len(record.seconds) for own in groups for record in own):
        return None
    tasks = [[record.seconds[np.searchsorted(record.steps, steps)] for record in own] for own in groups]
    hours = np.mean([np.mean(own, axis=0) for own in tasks], axis=0) / 3_600
    return hours if np.isfinite(hours).all() and hours[-1] > 0 else None


def _reached(curves: Sequence[Curve], goal: int | None) -> bool:
    """A variant in Atari is finished before its suite is."""
    return goal is not None and any(curve.finished and curve.steps[-1] >= goal for curve in curves)


def _aggregate(suite: str) -> Estimate:
    unit = unit_of(suite)
    found = published.aggregates()[suite, "Mean", DEFAULT]
    return Estimate(found.mean / unit, found.low / unit, found.high / unit)
