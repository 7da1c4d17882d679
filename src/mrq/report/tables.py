"""Our results beside the paper's: a table a suite, and the design study's differences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from mrq.benchmark.variants import DEFAULT, VARIANTS, steps_of
from mrq.environments.tasks import PROTOCOLS, names_in, protocol_of, suite_of
from mrq.interface import Array
from mrq.report import published
from mrq.report.intervals import Estimate, estimate
from mrq.report.records import Record
from mrq.report.scores import AGGREGATES, mean, score, unit_of
from mrq.report.suites import OTHER, section_of


class Cell(NamedTuple):
    mean: float
    interval: tuple[float, float] | None  # 95%; None where the paper has none, and of single seeds
    seeds: int | None  # the fewest that a task has; None for the paper's


def of_estimate(found: Estimate) -> Cell:
    return Cell(found.mean, (found.low, found.high), None)


@dataclass(frozen=True)
class SuiteTable:
    """Final returns. The aggregates are of the tasks that our first column has, in the units the paper has them in."""

    suite: str
    steps: int
    ours: list[str]  # the columns that come from runs
    theirs: list[str]  # and those that the paper has
    rows: dict[str, dict[str, Cell]]  # by task and column
    covered: list[str]  # the tasks that the aggregates are of
    aggregates: dict[str, dict[str, Cell]]  # by aggregate and column

    @property
    def whole(self) -> bool:
        """Whether its aggregates are of the whole suite, so that they may stand beside the paper's."""
        return len(self.covered) == len(self.rows)


@dataclass(frozen=True)
class Alone:
    """Seeds of a task that the paper does not have, or that have not come to its last step: compared with nothing."""

    algorithm: str
    task: str
    step: int  # that all of them have come to
    steps: int | None  # that they should come to
    cell: Cell


@dataclass(frozen=True)
class Study:
    """What a variant of the design study changes in a suite's mean score, in our runs and in the paper's."""

    variant: str
    suite: str
    ours: Estimate
    paper: Estimate
    tasks: list[str]  # that both the variant and MR.Q have; the paper has the suite's


def suite_tables(records: Sequence[Record]) -> list[SuiteTable]:
    """Of the suites that have complete runs."""
    return [table for suite in PROTOCOLS if (table := suite_table(suite, records)) is not None]


def suite_table(suite: str, records: Sequence[Record]) -> SuiteTable | None:
    """None where no run of the suite is complete."""
    steps, tasks = PROTOCOLS[suite].steps, names_in(suite)
    finals = {algorithm: _returns(records, algorithm, tasks, steps) for algorithm in algorithms(records)}
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
                rows[task][paper(name)] = of_estimate(results[task, name])
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
                aggregates[aggregate][paper(name)] = of_estimate(found)
    return SuiteTable(suite, steps, list(finals), [paper(name) for name in theirs], rows, covered, aggregates)


def alone(records: Sequence[Record]) -> list[Alone]:
    found = []
    order = algorithms(records)

    def place(record: Record) -> tuple[int, str]:
        return order.index(record.algorithm), record.task

    for (index, task), group in groupby(sorted(records, key=place), key=place):
        algorithm = order[index]
        steps = goal_of(algorithm, task)
        unfinished = [record for record in group if steps is None or record.at(steps) is None]
        if unfinished:
            step = int(min(record.steps[-1] for record in unfinished))
            returns = [value for record in unfinished if (value := record.at(step)) is not None]
            found.append(Alone(algorithm, task, step, steps, _cell([np.array(returns)], mean)))
    return found


def design_study(records: Sequence[Record]) -> list[Study]:
    """The differences in mean score from MR.Q's own runs, of the tasks that both have."""
    found = []
    for suite in PROTOCOLS:
        tasks, steps = names_in(suite), steps_of(suite)
        plain = _returns(records, DEFAULT, tasks, steps)
        for variant in VARIANTS:
            varied = _returns(records, variant, tasks, steps)
            both = [task for task in tasks if task in plain and task in varied]
            if both:
                scores = [score(task, returns[task]) for returns in (varied, plain) for task in both]

                def difference(scores: Sequence[Array], count: int = len(both)) -> Array:
                    return np.asarray(mean(scores[:count]) - mean(scores[count:]))

                theirs = published.design_study()[variant, suite]
                found.append(Study(variant, suite, estimate(scores, difference), theirs, both))
    return sorted(found, key=lambda study: list(VARIANTS).index(study.variant))


def goal_of(algorithm: str, task: str) -> int | None:
    """The step that a run must come to before it is compared with the paper; None for tasks that the paper lacks."""
    if section_of(task) == OTHER:
        return None
    return steps_of(suite_of(task)) if algorithm in VARIANTS else protocol_of(task).steps


def algorithms(records: Sequence[Record]) -> list[str]:
    """MR.Q first, then the variants as the paper has them, then all else."""
    order = [DEFAULT, *VARIANTS]
    names = {record.algorithm for record in records}
    return [name for name in order if name in names] + sorted(names - set(order))


def _returns(records: Sequence[Record], algorithm: str, tasks: Sequence[str], step: int) -> dict[str, Array]:
    """The returns (seeds,) at a step, by task; without tasks that have none."""
    found: dict[str, list[float]] = {task: [] for task in tasks}
    for record in records:
        if record.algorithm == algorithm and record.task in found and (value := record.at(step)) is not None:
            found[record.task].append(value)
    return {task: np.array(values) for task, values in found.items() if values}


def _cell(scores: Sequence[Array], aggregate: Callable[[Sequence[Array]], Array]) -> Cell:
    """Single seeds say nothing of how far others would be."""
    average, low, high = estimate(scores, aggregate)
    alone = all(len(own) == 1 for own in scores)
    return Cell(average, None if alone else (low, high), min(len(own) for own in scores))


def paper(algorithm: str) -> str:
    """What the column is called that has its results in the paper."""
    return f"{algorithm} (paper)"
