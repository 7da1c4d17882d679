"""All numbers of a report, computed once: Markdown, CSV, HTML and figures are written from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from mrq import version
from mrq.report.columns import ordered
from mrq.report.curves import Panel, suite_panels, task_panels
from mrq.report.inventory import Group, Missing, groups, missing, provenances
from mrq.report.records import Provenance, Record
from mrq.report.tables import StudyDifference, SuiteTable, Uncompared, design_study, suite_tables, uncompared


@dataclass(frozen=True)
class Report:
    """The numbers of a report."""

    date: date
    version: str
    runs: int
    algorithms: list[str]  # in the order of the columns, which decides their colours
    tables: list[SuiteTable]  # of the suites that have complete runs
    study: list[StudyDifference]
    uncompared: list[Uncompared]
    suite_curves: list[Panel]
    task_curves: list[Panel]
    groups: list[Group]
    provenances: list[tuple[Provenance, int]]
    missing: list[Missing]


def build(records: Sequence[Record]) -> Report:
    """Returns the report of these runs."""
    tables = suite_tables(records)
    return Report(
        datetime.now(UTC).date(),
        version.__version__,
        len(records),
        ordered(record.algorithm for record in records),
        tables,
        design_study(records),
        uncompared(records),
        suite_panels(records, tables),
        task_panels(records),
        groups(records),
        provenances(records),
        missing(records),
    )
