"""The sections of the page: what each says, as HTML."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from mrq.environments.tasks import PROTOCOLS, names_in
from mrq.report import html_tables, words
from mrq.report.figures import Figure, colours_of
from mrq.report.markup import element, escaped
from mrq.report.ran import measured
from mrq.report.report import Report
from mrq.report.suites import NAMES, OTHER, section_of
from mrq.report.tables import SuiteTable

BARS = "Bold are our runs, pale is MR.Q in the paper, grey are the paper's other algorithms; lines are 95% intervals."
CURVES = (
    "Means and 95% intervals, at the steps where all seeds of a line were evaluated. Seeds that have not come to the "
    "suite's last step are dashed, apart from those that have."
)
HOURS = (
    "Where the hours of two algorithms or more are known, the same returns follow against hours of training. A point's "
    "hours are the mean of its seeds' at that step, evaluations included; runs that train in one process each count "
    "its hours."
)
COSTS = (
    "Steps a second of one run, on average and evaluations included, and the parameters that it learns. Runs that "
    "train in one process each count its hours."
)


class Section(NamedTuple):
    anchor: str
    title: str
    body: str


def sections(report: Report, figures: Sequence[Figure]) -> list[Section]:
    """Those that have something to say."""
    made = [_summary(report, figures)]
    for suite in PROTOCOLS:
        if own := [figure for figure in figures if figure.kind == "task" and section_of(figure.of) == suite]:
            made.append(_suite(report, suite, [f for f in figures if f.kind == "suite" and f.of == suite], own))
    if others := [figure for figure in figures if figure.kind == "task" and section_of(figure.of) == OTHER]:
        note = "The paper does not have these tasks, so they are compared with nothing."
        made.append(_section("other", "Other tasks", _p(note), *_hours(report, OTHER, others), _grid(others)))
    if report.study:
        parts = (_p(words.study()), html_tables.study_legend(), html_tables.study(report.study))
        made.append(_section("study", "Design study", *parts))
    if report.alone:
        note = f"{words.ALONE} Returns are of the last step that all of these seeds have come to."
        made.append(_section("alone", words.ALONE_TITLE, _p(note), html_tables.alone(report.alone)))
    parts = (_p(words.RAN), html_tables.ran(report.ran), html_tables.setups(report.setups))
    made.append(_section("ran", "What ran", *parts))
    if report.missing:
        note = "Tasks without a run that has come to the last step of its suite."
        made.append(_section("missing", "What is missing", _p(note), html_tables.missing(report.missing)))
    return made


def _summary(report: Report, figures: Sequence[Figure]) -> Section:
    """The paper's front page, of the suites that we have whole."""
    tables = {table.suite: table for table in report.tables}
    whole = {suite for suite, table in tables.items() if table.whole}
    lacking = [_lacking(suite, tables.get(suite)) for suite in PROTOCOLS if suite not in whole]
    panels = [figure for figure in figures if figure.kind == "panel"]
    parts = []
    if panels:
        parts = [_p(f"Mean scores, as on the paper's front page. {BARS}"), _grid(panels, "bars")]
    if lacking:
        left_out, of = ("Left out", "their tasks") if panels else ("No suite is here yet", "the tasks of one")
        why = f"since {report.algorithms[0]} has not completed all {of}"
        parts.append(_p(f"{left_out}, {why}: {', '.join(lacking)}."))
    if costs := measured(report.ran):
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
        parts = [_p(f"No run has come to step {steps:,} yet, so nothing here is compared with the paper.")]
    else:
        says = [f"Returns after {steps:,} steps.", words.INTERVALS, words.covered(table)]
        if len(html_tables.columns(table)) < len(table.ours) + len(table.theirs):
            says.append("The design study's variants have a table of their own, below.")
        parts = [_p(" ".join(says)), html_tables.suite(table)]
    colours = colours_of(report.algorithms)
    undrawn = [one.algorithm for one in report.ran if one.suite == suite and one.algorithm not in colours]
    note = f" Not drawn, for want of colours: {', '.join(undrawn)}." if undrawn else ""
    parts += [element("h3", "Learning curves"), _p(CURVES + note), *_hours(report, suite, tasks)]
    return _section(suite, NAMES[suite].title, *parts, _grid([*means, *tasks]))


def _hours(report: Report, suite: str, tasks: Sequence[Figure]) -> list[str]:
    """What to know of curves against hours, where there are any."""
    if len({figure.of for figure in tasks}) == len(tasks):
        return []
    timed = [one for one in measured(report.ran) if one.suite == suite]
    return [_p(f"{HOURS} {words.hardware(timed)}".rstrip())]


def _lacking(suite: str, table: SuiteTable | None) -> str:
    tasks = f"{0 if table is None else len(table.covered)} of {len(names_in(suite))} tasks"
    return f"{NAMES[suite].title} ({tasks})"


def _grid(figures: Sequence[Figure], kind: str = "") -> str:
    """Curves of one thing, by steps and by hours, stand side by side."""
    drawn = []
    for _, group in groupby(figures, key=lambda figure: (figure.kind, figure.of)):
        own = [element("figure", figure.svg, data_name=figure.name) for figure in group]
        drawn.append(own[0] if len(own) == 1 else element("div", *own, class_="pair"))
    return element("div", *drawn, class_=f"grid {kind}".strip())


def _section(anchor: str, title: str, *parts: str) -> Section:
    return Section(anchor, title, element("section", element("h2", escaped(title)), "\n", *parts, id=anchor))


def _p(content: str) -> str:
    return element("p", escaped(content))
