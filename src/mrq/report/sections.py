"""The sections of the HTML page."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from mrq.environments.tasks import PROTOCOLS, names_in
from mrq.report import html_tables, words
from mrq.report.figures import Figure, colours_of
from mrq.report.inventory import measured
from mrq.report.markup import element, escaped
from mrq.report.report import Report
from mrq.report.suites import NAMES, OTHER, section_of
from mrq.report.tables import SuiteTable

BARS = (
    "Bold bars are our runs, pale bars the same algorithms in the paper, grey bars the paper's other algorithms. Lines "
    "are 95% intervals."
)
CURVES = (
    "Means and 95% intervals at the steps where all seeds of a line were evaluated. Seeds that have not reached the "
    "suite's last step have a dashed line of their own."
)
HOURS = (
    "If the hours of two algorithms or more are known, the same returns are also drawn against hours of training. The "
    "hours of a point are the mean over its seeds, evaluations included. Runs that train in one process each count its "
    "hours."
)
COSTS = (
    "The mean steps per second of one run, evaluations included, and the number of parameters that it learns. Runs "
    "that train in one process each count its hours."
)


class Section(NamedTuple):
    """A part of the page that its contents link to."""

    anchor: str
    title: str
    body: str


def sections(report: Report, figures: Sequence[Figure]) -> list[Section]:
    """Returns the sections that are not empty."""
    made = [_summary(report, figures)]
    for suite in PROTOCOLS:
        if own := [figure for figure in figures if figure.kind == "task" and section_of(figure.of) == suite]:
            made.append(_suite(report, suite, [f for f in figures if f.kind == "suite" and f.of == suite], own))
    if others := [figure for figure in figures if figure.kind == "task" and section_of(figure.of) == OTHER]:
        note = "The paper does not have these tasks, so there is nothing to compare them with."
        made.append(_section("other", "Other tasks", _p(note), *_hours(report, OTHER, others), _grid(others)))
    if report.study:
        parts = (_p(words.study()), html_tables.study_legend(), html_tables.study(report.study))
        made.append(_section("study", "Design study", *parts))
    if report.uncompared:
        note = f"{words.UNCOMPARED} Returns are those at the last step that all seeds of a row have reached."
        table = html_tables.uncompared(report.uncompared)
        made.append(_section("uncompared", words.UNCOMPARED_TITLE, _p(note), table))
    parts = (_p(words.RUNS), html_tables.groups(report.groups), html_tables.provenances(report.provenances))
    made.append(_section("runs", words.RUNS_TITLE, *parts))
    if report.missing:
        note = "Tasks without a run that has reached the last step of its suite."
        made.append(_section("missing", words.MISSING_TITLE, _p(note), html_tables.missing(report.missing)))
    return made


def _summary(report: Report, figures: Sequence[Figure]) -> Section:
    """Returns the paper's front page for the suites that are complete."""
    tables = {table.suite: table for table in report.tables}
    complete = {suite for suite, table in tables.items() if table.complete}
    incomplete = [_progress(suite, tables.get(suite)) for suite in PROTOCOLS if suite not in complete]
    panels = [figure for figure in figures if figure.kind == "panel"]
    parts = []
    if panels:
        parts = [_p(f"Mean scores, as on the paper's front page. {BARS}"), _grid(panels, "bars")]
    if incomplete:
        suites = "Incomplete suites are left out" if panels else "No suite is complete yet"
        parts.append(_p(f"{suites}. {report.algorithms[0]} has completed: {', '.join(incomplete)}."))
    if costs := measured(report.groups):
        parts += [
            element("h3", "Speed and size"),
            _p(f"{COSTS} {words.hardware(costs)}".rstrip()),
            html_tables.costs(costs),
        ]
    return _section("summary", "Summary", *parts)


def _suite(report: Report, suite: str, means: Sequence[Figure], tasks: Sequence[Figure]) -> Section:
    table = next((table for table in report.tables if table.suite == suite), None)
    steps = PROTOCOLS[suite].steps
    if table is None:
        parts = [_p(f"No run has reached step {steps:,} yet, so nothing here is compared with the paper.")]
    else:
        notes = [f"Returns after {steps:,} steps.", words.INTERVALS, words.covered(table)]
        if len(html_tables.columns(table)) < len(table.ours) + len(table.theirs):
            notes.append("Variants of the design study have a table of their own, below.")
        parts = [_p(" ".join(notes)), html_tables.suite(table)]
    colours = colours_of(report.algorithms)
    undrawn = [group.algorithm for group in report.groups if group.suite == suite and group.algorithm not in colours]
    note = f" Not drawn, because there are not enough colours: {', '.join(undrawn)}." if undrawn else ""
    parts += [element("h3", "Learning curves"), _p(CURVES + note), *_hours(report, suite, tasks)]
    return _section(suite, NAMES[suite].title, *parts, _grid([*means, *tasks]))


def _hours(report: Report, suite: str, tasks: Sequence[Figure]) -> list[str]:
    """Explains curves against hours, if there are any."""
    if len({figure.of for figure in tasks}) == len(tasks):
        return []
    timed = [group for group in measured(report.groups) if group.suite == suite]
    return [_p(f"{HOURS} {words.hardware(timed)}".rstrip())]


def _progress(suite: str, table: SuiteTable | None) -> str:
    tasks = f"{0 if table is None else len(table.covered)} of {len(names_in(suite))} tasks"
    return f"{NAMES[suite].title} ({tasks})"


def _grid(figures: Sequence[Figure], kind: str = "") -> str:
    """Returns a grid of figures, in which curves of one task by steps and by hours stand side by side."""
    drawn = []
    for _, group in groupby(figures, key=lambda figure: (figure.kind, figure.of)):
        own = [element("figure", figure.svg, data_name=figure.name) for figure in group]
        drawn.append(own[0] if len(own) == 1 else element("div", *own, class_="pair"))
    return element("div", *drawn, class_=f"grid {kind}".strip())


def _section(anchor: str, title: str, *parts: str) -> Section:
    return Section(anchor, title, element("section", element("h2", escaped(title)), "\n", *parts, id=anchor))


def _p(content: str) -> str:
    return element("p", escaped(content))
