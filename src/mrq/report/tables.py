"""Our results beside the paper's: one table per suite, and the differences of the design study."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from mrq.environments.tasks import PROTOCOLS, names_in, protocol_of, study_steps, suite_of
from mrq.interface import Array
from mrq.report import published
from mrq.report.columns import MAIN, VARIANTS, ordered, paper
from mrq.report.intervals import Estimate, estimate
from mrq.report.records import Record
from mrq.report.scores import AGGREGATES, mean, score, unit_of
from mrq.report.suites import OTHER, section_of


class Cell(NamedTuple):
    """A number of a table."""

    mean: float
    interval: tuple[float, float] | None  # 95%; None if the paper has none, and for single seeds
    seeds: int | None  # the fewest of a task; None for the paper's


def cell_of(found: Estimate) -> Cell:
    """Returns the cell of a result of the paper."""
    return Cell(found.mean, (found.low, found.high), None)


@dataclass(frozen=True)
class SuiteTable:
    """Final returns. The aggregates are those of the tasks that our first column has, in the paper's units."""

    suite: str
    steps: int
    ours: list[str]  # the columns that come from runs
    theirs: list[str]  # the paper's columns
    rows: dict[str, dict[str, Cell]]  # by task and column
    covered: list[str]  # the tasks of the aggregates
    aggregates: dict[str, dict[str, Cell]]  # by aggregate and column

    @property
    def complete(self) -> bool:
        """Whether the aggregates cover the whole suite, so that they can be compared with the paper's."""
        return len(self.covered) == len(self.rows)


@dataclass(frozen=True)
class Uncompared:
    """Seeds that are not compared with the paper: it lacks their task, or they have not reached the final step."""

    algorithm: str
    task: str
    step: int  # the last one that all of them have reached
    final_step: int | None
    cell: Cell


@dataclass(frozen=True)
class StudyDifference:
    """How a variant of the design study changes a suite's mean score, in our runs and in the paper's."""

    variant: str
    suite: str
    ours: Estimate
    paper: Estimate
    tasks: list[str]  # those that both the variant and the paper's algorithm have; the paper has the whole suite


def suite_tables(records: Sequence[Record]) -> list[SuiteTable]:
    """Returns the tables of the suites that have complete runs."""
    return [table for suite in PROTOCOLS if (table := suite_table(suite, records)) is not None]


def suite_table(suite: str, records: Sequence[Record]) -> SuiteTable | None:
    """Returns the table of a suite, or None if none of its runs is complete."""
    steps, tasks = PROTOCOLS[suite].steps, names_in(suite)
    finals = {name: _returns(records, name, tasks, steps) for name in ordered(r.algorithm for r in records)}
    finals = {algorithm: returns for algorithm, returns in finals.items() if returns}
    if not finals:
        return None
    results = {(task, name): found for (task, name), found in published.results().items() if task in tasks}
    theirs = list(dict.fromkeys(name for _, name in results))
    rows: dict[str, dict[str, Cell]] = {}
    for task in tasks:
        rows[task] = {name: _cell([returns[task]], mean) for name, returns in finals.items() if task in returns}
        for name in theirs:
            if (task, name) in results:
                rows[task][paper(name)] = cell_of(results[task, name])
    covered = list(next(iter(finals.values())))
    unit = unit_of(suite)
    aggregates: dict[str, dict[str, Cell]] = {}
    for aggregate, function in AGGREGATES.items():
        aggregates[aggregate] = {
            name: _cell([unit * score(task, returns[task]) for task in covered], function)
            for name, returns in finals.items()
            if set(covered) <= set(returns)
        }
        for name in theirs:
            means = [unit * score(t, np.array([results[t, name].mean])) for t in covered if (t, name) in results]
            if len(means) == len(covered):
                aggregates[aggregate][paper(name)] = Cell(float(function(means)), None, None)
    if len(covered) == len(tasks):
        for (of, aggregate, name), found in published.aggregates().items():
            if of == suite:
                aggregates[aggregate][paper(name)] = cell_of(found)
    return SuiteTable(suite, steps, list(finals), [paper(name) for name in theirs], rows, covered, aggregates)


def uncompared(records: Sequence[Record]) -> list[Uncompared]:
    """Returns the runs that are not compared with the paper, by algorithm and task."""
    found = []
    order = ordered(record.algorithm for record in records)

    def place(record: Record) -> tuple[int, str]:
        return order.index(record.algorithm), record.task

    for (index, task), group in groupby(sorted(records, key=place), key=place):
        algorithm = order[index]
        last = final_step(algorithm, task)
        unfinished = [record for record in group if last is None or record.at(last) is None]
        if unfinished:
            step = int(min(record.steps[-1] for record in unfinished))
            returns = [value for record in unfinished if (value := record.at(step)) is not None]
            found.append(Uncompared(algorithm, task, step, last, _cell([np.array(returns)], mean)))
    return found


def design_study(records: Sequence[Record]) -> list[StudyDifference]:
    """Returns the variants' differences in mean score from our own runs, over the tasks that both have."""
    found = []
    for suite in PROTOCOLS:
        tasks, steps = names_in(suite), study_steps(suite)
        plain = _returns(records, MAIN, tasks, steps)
        for variant in VARIANTS:
            varied = _returns(records, variant, tasks, steps)
            both = [task for task in tasks if task in plain and task in varied]
            if both:
                scores = [score(task, returns[task]) for returns in (varied, plain) for task in both]

                def difference(scores: Sequence[Array], count: int = len(both)) -> Array:
                    return np.asarray(mean(scores[:count]) - mean(scores[count:]))

                theirs = published.design_study()[variant, suite]
                found.append(StudyDifference(variant, suite, estimate(scores, difference), theirs, both))
    return sorted(found, key=lambda difference: VARIANTS.index(difference.variant))


def final_step(algorithm: str, task: str) -> int | None:
    """Returns the step at which a run is compared with the paper, or None if the paper does not have the task."""
    if section_of(task) == OTHER:
        return None
    return study_steps(suite_of(task)) if algorithm in VARIANTS else protocol_of(task).steps


def _returns(records: Sequence[Record], algorithm: str, tasks: Sequence[str], step: int) -> dict[str, Array]:
    """Returns the returns (seeds,) at a step by task, without tasks that have none."""
    found: dict[str, list[float]] = {task: [] for task in tasks}
    for record in records:
        if record.algorithm == algorithm and record.task in found and (value := record.at(step)) is not None:
            found[record.task].append(value)
    return {task: np.array(values) for task, values in found.items() if values}


def _cell(scores: Sequence[Array], aggregate: Callable[[Sequence[Array]], Array]) -> Cell:
    """Returns an aggregate with its interval; without one if every task has a single seed."""
    average, low, high = estimate(scores, aggregate)
    single = all(len(own) == 1 for own in scores)
    return Cell(average, None if single else (low, high), min(len(own) for own in scores))
