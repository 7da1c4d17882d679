"""A report as Markdown, and its numbers as CSV."""

import csv
import io
import re

from mrq.environments.tasks import names_in, study_steps
from mrq.markdown import escaped, markdown_table
from mrq.printable import condensed
from mrq.report import words
from mrq.report.columns import paper
from mrq.report.formatting import counted
from mrq.report.report import Report
from mrq.report.suites import section_of
from mrq.report.tables import Cell, SuiteTable, cell_of

CSV_COLUMNS = ("suite", "row", "column", "step", "mean", "low", "high", "seeds", "tasks")
STUDY = "design study"
# What a spreadsheet computes: text that begins like this, where some split cells at semicolons. Four are full-width.
FORMULA = re.compile("(^|;) ?(?=[=+@\uff1d\uff0b\uff0d\uff20-])")


def markdown(report: Report) -> str:
    """Returns the report as Markdown."""
    parts = [
        f"# {words.TITLE}",
        f"{counted(report.runs, 'run')}. {words.INTERVALS}",
    ]
    for table in report.tables:
        parts += _suite(table)
    parts += _design_study(report) + _uncompared(report) + _runs(report) + _missing(report)
    return "\n\n".join(parts) + "\n"


def as_csv(report: Report) -> str:
    """Returns the numbers of the suites' tables, the design study and the runs not compared, one per row."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)

    def write(suite: str, row: str, column: str, step: int, cell: Cell, tasks: int = 1) -> None:
        interval = cell.interval or ("", "")
        names = map(_computed_by_no_spreadsheet, (suite, row, column))
        writer.writerow((*names, step, cell.mean, *interval, cell.seeds or "", tasks))

    for table in report.tables:
        for name, row in (table.rows | table.aggregates).items():
            for column, cell in row.items():
                tasks = len(table.covered) if name in table.aggregates else 1
                write(table.suite, name, column, table.steps, cell, tasks)
    for study in report.study:
        steps, theirs = study_steps(study.suite), len(names_in(study.suite))
        write(study.suite, STUDY, study.variant, steps, cell_of(study.ours), len(study.tasks))
        write(study.suite, STUDY, paper(study.variant), steps, cell_of(study.paper), theirs)
    for found in report.uncompared:
        write(section_of(found.task), found.task, found.algorithm, found.step, found.cell)
    return file.getvalue()


def _suite(table: SuiteTable) -> list[str]:
    columns = [*table.ours, *table.theirs]
    rows = [[words.bare(task), *(_text(row.get(c), 0) for c in columns)] for task, row in table.rows.items()]
    foot = [
        [name, *(_text(row.get(column), words.digits(table)) for column in columns)]
        for name, row in table.aggregates.items()
    ]
    return [
        f"## {table.suite}, {table.steps:,} steps",
        markdown_table(["task", *columns], rows, foot),
        words.covered(table),
    ]


def _design_study(report: Report) -> list[str]:
    rows = [
        [s.variant, s.suite, _text(cell_of(s.ours), 2), str(len(s.tasks)), _text(cell_of(s.paper), 2)]
        for s in report.study
    ]
    table = markdown_table(["variant", "suite", "ours", "tasks", "paper, all tasks"], rows)
    return ["## Design study", words.study(), table] if rows else []


def _uncompared(report: Report) -> list[str]:
    rows = [[found.task, found.algorithm, words.steps(found), _text(found.cell, 0)] for found in report.uncompared]
    if not rows:
        return []
    return [
        f"## {words.UNCOMPARED_TITLE}",
        words.UNCOMPARED,
        markdown_table(["task", "algorithm", "steps", "return"], rows),
    ]


def _runs(report: Report) -> list[str]:
    rows = [[group.algorithm, group.suite, *words.group(group)] for group in report.groups]
    parts = [f"## {words.RUNS_TITLE}", markdown_table(["algorithm", "suite", *words.RUNS_COLUMNS], rows), words.RUNS]
    if report.provenances:
        lines = [
            f"- {counted(count, 'run')}: {escaped(', '.join(' '.join(pair) for pair in provenance))}"
            for provenance, count in report.provenances
        ]
        parts.append("\n".join(lines))
    return parts


def _missing(report: Report) -> list[str]:
    rows = [[missing.algorithm, missing.suite, *words.missing(missing)] for missing in report.missing]
    table = markdown_table(["algorithm", "suite", *words.MISSING_COLUMNS], rows)
    return [f"## {words.MISSING_TITLE}", table] if rows else []


def _text(cell: Cell | None, digits: int) -> str:
    if cell is None:
        return words.NONE
    text = f"{cell.mean:,.{digits}f}"
    if cell.interval is not None:
        text += f" [{cell.interval[0]:,.{digits}f}, {cell.interval[1]:,.{digits}f}]"
    return text + (f" ({cell.seeds})" if cell.seeds is not None else "")


def _computed_by_no_spreadsheet(text: str) -> str:
    """Returns text on one line, with an apostrophe before what a spreadsheet would compute."""
    return FORMULA.sub(r"\g<0>'", condensed(text))
