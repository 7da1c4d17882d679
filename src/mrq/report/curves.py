"""Learning curves as numbers: the mean over seeds at each step, its 95% interval, the hours and the number of seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from mrq.environments.tasks import paper_tasks
from mrq.interface import Array
from mrq.report import published
from mrq.report.columns import MAIN, ordered, without_variants
from mrq.report.intervals import Estimate, estimate_curve
from mrq.report.records import Record
from mrq.report.scores import score, unit_of
from mrq.report.suites import NAMES
from mrq.report.tables import SuiteTable, final_step

MOST_POINTS = 101  # per curve; a figure cannot show more


@dataclass(frozen=True)
class Curve:
    """The curve of the seeds that have reached the final step, or of those that have not; never of both."""

    algorithm: str
    seeds: int  # at every step; the fewest of a task
    finished: bool
    steps: Array  # those at which all of these seeds were evaluated
    mean: Array
    low: Array
    high: Array
    hours: Array | None  # mean hours of training of a run before each step; None if unknown for a run


@dataclass(frozen=True)
class Panel:
    """The curves of a task, or of a suite's mean score."""

    name: str  # of the task or the suite
    title: str
    unit: str
    final_step: int | None  # at which the paper has its results
    curves: list[Curve]
    paper: Estimate | None  # the paper's own algorithm at the final step; None if no run has reached it

    @property
    def timed(self) -> set[str]:
        """The algorithms whose hours are known, without the design study's variants."""
        return set(without_variants(curve.algorithm for curve in self.curves if curve.hours is not None))


def task_panels(records: Sequence[Record]) -> list[Panel]:
    """Returns one panel per task: first those of the paper in its order, then all others by name."""
    by_task: dict[str, list[Record]] = {}
    for record in records:
        by_task.setdefault(record.task, []).append(record)
    order = [task.name for task in paper_tasks() if task.name in by_task]
    results = published.results()
    made = []
    for task in [*order, *sorted(set(by_task) - set(order))]:
        last = final_step(MAIN, task)
        curves = [
            curve
            for algorithm in ordered(record.algorithm for record in by_task[task])
            for finished in (True, False)
            if (curve := _curve([_group(by_task[task], algorithm, task, finished)], algorithm, finished)) is not None
        ]
        paper = results.get((task, MAIN)) if _reached(curves, last) else None
        made.append(Panel(task, task, "return", last, curves, paper))
    return [panel for panel in made if panel.curves]


def suite_panels(records: Sequence[Record], tables: Sequence[SuiteTable]) -> list[Panel]:
    """Returns one panel per table: the mean scores over the tasks that its aggregates cover."""
    made = []
    for table in tables:
        curves = []
        for algorithm in table.ours:
            groups = [_group(records, algorithm, task, True, table.steps) for task in table.covered]
            if (curve := _curve(groups, algorithm, True, normalised=True)) is not None:
                curves.append(curve)
        title, unit = NAMES[table.suite]
        paper = _published_mean(table.suite) if table.complete else None
        title = f"{title}: mean of {len(table.covered)}{'' if paper else f' of {len(table.rows)}'} tasks"
        made.append(Panel(table.suite, title, unit, table.steps, curves, paper))
    return [panel for panel in made if panel.curves]


def _group(
    records: Sequence[Record], algorithm: str, task: str, finished: bool, last: int | None = None
) -> list[Record]:
    """Returns the seeds that have reached the final step, or the others; without a final step none has reached it."""
    last = last or final_step(algorithm, task)
    own = [record for record in records if record.algorithm == algorithm and record.task == task]
    return [record for record in own if (last is not None and record.at(last) is not None) == finished]


def _curve(
    groups: Sequence[Sequence[Record]], algorithm: str, finished: bool, normalised: bool = False
) -> Curve | None:
    """Returns the curve of the tasks' seeds, or None if a task has none or they share no step."""
    if not all(groups):
        return None
    members = [record for group in groups for record in group]
    steps = reduce(np.intersect1d, (record.steps for record in members))
    steps = steps[::-1][:: math.ceil(len(steps) / MOST_POINTS) or 1][::-1]  # keeps the last
    if not len(steps):
        return None
    tasks = [np.array([record.returns[np.searchsorted(record.steps, steps)] for record in own]) for own in groups]
    hours = _hours(groups, steps)
    if normalised:
        tasks = [score(own[0].task, returns) for own, returns in zip(groups, tasks, strict=True)]
    return Curve(algorithm, min(map(len, groups)), finished, steps, *estimate_curve(tasks), hours)


def _hours(groups: Sequence[Sequence[Record]], steps: Array) -> Array | None:
    """Returns the hours at each step: the mean over tasks of the means over seeds, as for returns."""
    if not all(len(record.seconds) for own in groups for record in own):
        return None
    tasks = [[record.seconds[np.searchsorted(record.steps, steps)] for record in own] for own in groups]
    hours = np.mean([np.mean(own, axis=0) for own in tasks], axis=0) / 3_600
    return hours if np.isfinite(hours).all() and hours[-1] > 0 else None


def _reached(curves: Sequence[Curve], last: int | None) -> bool:
    """Says whether a curve has reached this step. In Atari variants of the design study end before."""
    return last is not None and any(curve.finished and curve.steps[-1] >= last for curve in curves)


def _published_mean(suite: str) -> Estimate:
    unit = unit_of(suite)
    found = published.aggregates()[suite, "Mean", MAIN]
    return Estimate(found.mean / unit, found.low / unit, found.high / unit)
