"""All that a report says, worked out once: Markdown, CSV, HTML and figures are written from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from mrq import version
from mrq.report.curves import Panel, suite_panels, task_panels
from mrq.report.ran import Missing, Ran, setups, what_is_missing, what_ran
from mrq.report.records import Record, Setup
from mrq.report.tables import Alone, Study, SuiteTable, algorithms, alone, design_study, suite_tables


@dataclass(frozen=True)
class Report:
    date: date
    version: str
    runs: int
    algorithms: list[str]  # MR.Q first; their places are their colours
    tables: list[SuiteTable]  # of the suites that have complete runs
    study: list[Study]
    alone: list[Alone]
    suite_curves: list[Panel]
    task_curves: list[Panel]
    ran: list[Ran]
    setups: list[tuple[Setup, int]]
    missing: list[Missing]


def build(records: Sequence[Record]) -> Report:
    tables = suite_tables(records)
    return Report(
        datetime.now(UTC).date(),
        version.__version__,
        len(records),
        algorithms(records),
        tables,
        design_study(records),
        alone(records),
        suite_panels(records, tables),
        task_panels(records),
        what_ran(records),
        setups(records),
        what_is_missing(records),
    )
