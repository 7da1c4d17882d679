"""A report as Markdown, and its numbers as CSV."""

import csv
import io
from collections.abc import Sequence

from mrq.benchmark.variants import VARIANTS, steps_of
from mrq.environments.tasks import PROTOCOLS
from mrq.report import published
from mrq.report.records import Record
from mrq.report.tables import Alone, Cell, SuiteTable, alone, design_study, suite_tables

MISSING = "-"
CSV_COLUMNS = ("suite", "row", "column", "mean", "low", "high", "seeds")


def markdown(records: Sequence[Record]) -> str:
    parts = ["# MR.Q: our runs beside the paper's", f"{len(records)} runs. Intervals are 95% stratified bootstraps."]
    for table in suite_tables(records):
        parts += _suite(table)
    parts += _design_study(records)
    parts += _alone(records)
    return "\n\n".join(parts) + "\n"


def as_csv(records: Sequence[Record]) -> str:
    """Every number of the suites' tables, one a row."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for table in suite_tables(records):
        for name, row in (table.rows | table.aggregates).items():
            for column, cell in row.items():
                interval = cell.interval or ("", "")
                writer.writerow((table.suite, name, column, cell.mean, *interval, cell.seeds or ""))
    return file.getvalue()


def _suite(table: SuiteTable) -> list[str]:
    columns = [*table.ours, *table.theirs]
    digits = 0 if table.suite.startswith("dmc") else 2
    rows = [[task.partition("/")[2], *(_text(row.get(c), 0) for c in columns)] for task, row in table.rows.items()]
    rows += [
        [f"**{name}**", *(_text(row.get(column), digits) for column in columns)]
        for name, row in table.aggregates.items()
    ]
    has = "" if len(table.covered) == table.tasks else f", of which we have {len(table.covered)}"
    aggregates = f"Aggregates are of the suite's {table.tasks} tasks{has}."
    return [f"## {table.suite}, {table.steps:,} steps", _table(["task", *columns], rows), aggregates]


def _design_study(records: Sequence[Record]) -> list[str]:
    ours = design_study(records)
    if not ours:
        return []
    theirs = {(row.variant, row.suite): row for row in published.design_study()}
    rows = []
    for variant in VARIANTS:
        for suite in PROTOCOLS:
            if (variant, suite) in ours:
                (average, low, high), tasks = ours[variant, suite]
                paper = theirs[variant, suite]
                rows.append(
                    [
                        variant,
                        suite,
                        _text(Cell(average, (low, high), None), 2),
                        str(len(tasks)),
                        _text(Cell(paper.mean, (paper.low, paper.high), None), 2),
                    ]
                )
    steps = ", ".join(f"{suite} {steps_of(suite):,}" for suite in PROTOCOLS)
    return [
        "## Design study",
        f"Differences in mean score from MR.Q, after as many steps as in the paper ({steps}).",
        _table(["variant", "suite", "ours", "tasks", "paper, all tasks"], rows),
    ]


def _alone(records: Sequence[Record]) -> list[str]:
    rows = [[found.task, found.algorithm, _steps(found), _text(found.cell, 0)] for found in alone(records)]
    if not rows:
        return []
    return [
        "## Compared with nothing",
        "Runs that have not come to the last step of their suite, and tasks that the paper does not have.",
        _table(["task", "", "steps", "return"], rows),
    ]


def _steps(found: Alone) -> str:
    return f"{found.step:,}" if found.steps is None else f"{found.step:,} of {found.steps:,}"


def _text(cell: Cell | None, digits: int) -> str:
    if cell is None:
        return MISSING
    text = f"{cell.mean:,.{digits}f}"
    if cell.interval is not None:
        text += f" [{cell.interval[0]:,.{digits}f}, {cell.interval[1]:,.{digits}f}]"
    return text + (f" ({cell.seeds})" if cell.seeds is not None else "")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
