"""A report as Markdown, and its numbers as CSV."""

import csv
import io
from collections.abc import Sequence

from mrq.benchmark.variants import steps_of
from mrq.environments.tasks import names_in
from mrq.report import words
from mrq.report.brevity import counted
from mrq.report.report import Report
from mrq.report.suites import section_of
from mrq.report.tables import Cell, SuiteTable, of_estimate, paper

CSV_COLUMNS = ("suite", "row", "column", "step", "mean", "low", "high", "seeds", "tasks")
STUDY = "design study"


def markdown(report: Report) -> str:
    parts = [
        f"# {words.TITLE}",
        f"{counted(report.runs, 'run')}. {words.INTERVALS}",
    ]
    for table in report.tables:
        parts += _suite(table)
    parts += _design_study(report) + _alone(report) + _ran(report) + _missing(report)
    return "\n\n".join(parts) + "\n"


def as_csv(report: Report) -> str:
    """Every number of the tables, one a row: the suites', the design study's, and what is compared with nothing."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)

    def write(suite: str, row: str, column: str, step: int, cell: Cell, tasks: int = 1) -> None:
        interval = cell.interval or ("", "")
        writer.writerow((suite, row, column, step, cell.mean, *interval, cell.seeds or "", tasks))

    for table in report.tables:
        for name, row in (table.rows | table.aggregates).items():
            for column, cell in row.items():
                tasks = len(table.covered) if name in table.aggregates else 1
                write(table.suite, name, column, table.steps, cell, tasks)
    for study in report.study:
        steps, theirs = steps_of(study.suite), len(names_in(study.suite))
        write(study.suite, STUDY, study.variant, steps, of_estimate(study.ours), len(study.tasks))
        write(study.suite, STUDY, paper(study.variant), steps, of_estimate(study.paper), theirs)
    for alone in report.alone:
        write(section_of(alone.task), alone.task, alone.algorithm, alone.step, alone.cell)
    return file.getvalue()


def _suite(table: SuiteTable) -> list[str]:
    columns = [*table.ours, *table.theirs]
    rows = [[words.bare(task), *(_text(row.get(c), 0) for c in columns)] for task, row in table.rows.items()]
    rows += [
        [f"**{name}**", *(_text(row.get(column), words.digits(table)) for column in columns)]
        for name, row in table.aggregates.items()
    ]
    return [f"## {table.suite}, {table.steps:,} steps", _table(["task", *columns], rows), words.covered(table)]


def _design_study(report: Report) -> list[str]:
    rows = [
        [s.variant, s.suite, _text(of_estimate(s.ours), 2), str(len(s.tasks)), _text(of_estimate(s.paper), 2)]
        for s in report.study
    ]
    table = _table(["variant", "suite", "ours", "tasks", "paper, all tasks"], rows)
    return ["## Design study", words.study(), table] if rows else []


def _alone(report: Report) -> list[str]:
    rows = [[found.task, found.algorithm, words.steps(found), _text(found.cell, 0)] for found in report.alone]
    if not rows:
        return []
    return [
        f"## {words.ALONE_TITLE}",
        words.ALONE,
        _table(["task", "", "steps", "return"], rows),
    ]


def _ran(report: Report) -> list[str]:
    rows = [[ran.algorithm, ran.suite, *words.ran(ran)] for ran in report.ran]
    parts = ["## What ran", _table(["", "suite", *words.RAN_COLUMNS], rows), words.RAN]
    if report.setups:
        lines = [
            f"- {counted(count, 'run')}: {', '.join(' '.join(pair) for pair in setup)}"
            for setup, count in report.setups
        ]
        parts.append("\n".join(lines))
    return parts


def _missing(report: Report) -> list[str]:
    rows = [[missing.algorithm, missing.suite, *words.missing(missing)] for missing in report.missing]
    return ["## What is missing", _table(["", "suite", *words.MISSING_COLUMNS], rows)] if rows else []


def _text(cell: Cell | None, digits: int) -> str:
    if cell is None:
        return words.NONE
    text = f"{cell.mean:,.{digits}f}"
    if cell.interval is not None:
        text += f" [{cell.interval[0]:,.{digits}f}, {cell.interval[1]:,.{digits}f}]"
    return text + (f" ({cell.seeds})" if cell.seeds is not None else "")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_escaped, line))} |" for line in lines)


def _escaped(cell: str) -> str:
    return " ".join(cell.split()).replace("|", r"\|").replace("<", "&lt;")
