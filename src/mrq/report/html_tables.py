"""The tables of the HTML page."""

from collections.abc import Sequence
from itertools import pairwise

from mrq.environments.tasks import PROTOCOLS, names_in
from mrq.report import words
from mrq.report.columns import VARIANTS, place_of_paper, without_variants
from mrq.report.formatting import counted, short
from mrq.report.intervals import Estimate
from mrq.report.inventory import Group, Missing
from mrq.report.markup import element, escaped
from mrq.report.records import Provenance
from mrq.report.suites import NAMES, OTHER
from mrq.report.tables import Cell, StudyDifference, SuiteTable, Uncompared

SHADES = (0.01, 0.2, 0.5)  # the smallest differences that the paper colours lightly, moderately and boldly


def suite(table: SuiteTable) -> str:
    """Returns the table of the tasks that we have, with our columns first and the aggregates at its foot."""
    shown = columns(table)
    ours = {task: row for task, row in table.rows.items() if row.keys() & set(table.ours)}
    head = [_head("task"), *(_head(name, "ours" if name in table.ours else "") for name in shown)]
    body = [[_name(words.bare(task)), *(_cell(row.get(name), 0) for name in shown)] for task, row in ours.items()]
    foot = [
        [_name(aggregate), *(_cell(row.get(name), words.digits(table)) for name in shown)]
        for aggregate, row in table.aggregates.items()
    ]
    return _table([head], body, foot)


def columns(table: SuiteTable) -> list[str]:
    """Returns our columns, then the same algorithms in the paper, then its others.

    Variants of the design study are left out, unless there is nothing else.
    """
    ours = without_variants(table.ours) or table.ours
    return [*ours, *sorted(table.theirs, key=lambda name: place_of_paper(name, ours))]


def study(found: Sequence[StudyDifference]) -> str:
    """Returns the paper's table with our differences beside its own, for the suites that we have runs of."""
    by_place = {(one.variant, one.suite): one for one in found}
    suites = [suite for suite in PROTOCOLS if any(one.suite == suite for one in found)]
    heads = [
        [_head("variant", rowspan="2"), *(_head(NAMES[suite].title, "group", colspan="2") for suite in suites)],
        [_head(name, "ours" if name == "ours" else "") for _ in suites for name in ("ours", "paper")],
    ]
    body = []
    for variant in [name for name in VARIANTS if any(one.variant == name for one in found)]:
        row = [_name(variant)]
        for suite in suites:
            one = by_place.get((variant, suite))
            row += [_cell(None, 0)] * 2 if one is None else [_difference(one.ours, _some(one)), _difference(one.paper)]
        body.append(row)
    return _table(heads, body, class_="study")


def study_legend() -> str:
    """Returns the legend of the design study's colours."""
    names = [*(f"{low:g} to {high:g}" for low, high in pairwise(SHADES)), f"{SHADES[-1]:g} or more"]
    worse = [(f"bad{level}", f"worse by {name}") for level, name in reversed(list(enumerate(names, 1)))]
    better = [(f"good{level}", f"better by {name}") for level, name in enumerate(names, 1)]
    return element("p", *(element("span", text, class_=shade) for shade, text in worse + better), class_="legend")


def shade(difference: float) -> str:
    """Returns the class of a difference's colour; empty if it has none."""
    level = sum(abs(difference) >= least for least in SHADES)
    return f"{'good' if difference > 0 else 'bad'}{level}" if level else ""


def uncompared(found: Sequence[Uncompared]) -> str:
    """Returns the table of the runs that are not compared with the paper."""
    rows = [
        [_name(one.task), _text(one.algorithm), _number(words.steps(one, short)), _cell(one.cell, 0)] for one in found
    ]
    heads = [_head("task"), _head("algorithm", "text"), _head("steps"), _head("return")]
    return _table([heads], rows)


def groups(found: Sequence[Group]) -> str:
    """Returns the table of the runs' numbers by algorithm and suite."""
    rows = [[_name(one.algorithm), _text(one.suite), *map(_number, words.group(one))] for one in found]
    return _table([[_head("algorithm"), _head("suite", "text"), *map(_head, words.RUNS_COLUMNS)]], rows)


def costs(found: Sequence[Group]) -> str:
    """Returns the table of speed and size: one row per algorithm, two columns per suite."""
    by_place = {(one.algorithm, one.suite): one for one in found}
    suites = [suite for suite in (*PROTOCOLS, OTHER) if any(one.suite == suite for one in found)]
    titles = [NAMES[suite].title if suite in NAMES else OTHER.capitalize() for suite in suites]
    heads = [
        [_head("algorithm", rowspan="2"), *(_head(title, "group", colspan="2") for title in titles)],
        [_head(name) for _ in suites for name in ("steps/s", "parameters")],
    ]
    body = []
    for algorithm in dict.fromkeys(one.algorithm for one in found):
        row = [_name(algorithm)]
        for suite in suites:
            one = by_place.get((algorithm, suite))
            row += [_cell(None, 0)] * 2 if one is None else [_number(words.speed(one)), _number(words.parameters(one))]
        body.append(row)
    return _table(heads, body)


def provenances(found: Sequence[tuple[Provenance, int]]) -> str:
    """Returns the table of hardware, versions and settings, with one column per group of runs that share them."""
    if not found:
        return ""
    names = list(dict.fromkeys(name for provenance, _ in found for name, _ in provenance))
    heads = [_head("hardware and versions"), *(_head(counted(count, "run"), "text") for _, count in found)]
    described = [dict(provenance) for provenance, _ in found]
    return _table([heads], [[_name(name), *(_text(one.get(name, words.NONE)) for one in described)] for name in names])


def missing(found: Sequence[Missing]) -> str:
    """Returns a list, because the names of the tasks do not fit into the columns of a table."""
    parts = []
    for one in found:
        complete, unfinished, absent = words.missing(one)
        parts.append(element("dt", escaped(f"{one.algorithm}, {NAMES[one.suite].title}: {complete} tasks complete")))
        for name, tasks in (("Unfinished", unfinished), ("Not started", absent)):
            if tasks != words.NONE:
                parts.append(element("dd", escaped(f"{name}: {tasks}")))
    return element("dl", *parts)


def _table(
    heads: Sequence[Sequence[str]], body: Sequence[Sequence[str]], foot: Sequence[Sequence[str]] = (), class_: str = ""
) -> str:
    """Returns a table in a box that scrolls if the table is wider than the page."""
    parts = [element("thead", *_rows(heads)), element("tbody", *_rows(body))]
    if foot:
        parts.append(element("tfoot", *_rows(foot)))
    return element("div", element("table", "\n", *parts, class_=class_), class_="box", tabindex="0")


def _rows(rows: Sequence[Sequence[str]]) -> list[str]:
    return [element("tr", *row) + "\n" for row in rows]


def _head(content: str, class_: str = "", **spans: str) -> str:
    return element("th", escaped(content), scope="col", class_=class_, **spans)


def _name(content: str) -> str:
    """Returns the first cell of a row, which names it."""
    return element("th", escaped(content), scope="row")


def _text(content: str) -> str:
    return element("td", escaped(content), class_="text")


def _number(content: str) -> str:
    return element("td", escaped(content))


def _cell(cell: Cell | None, digits: int) -> str:
    if cell is None:
        return element("td", words.NONE, class_="none")
    beside = [] if cell.interval is None else [f"[{cell.interval[0]:,.{digits}f}, {cell.interval[1]:,.{digits}f}]"]
    beside += [] if cell.seeds is None else [f"({cell.seeds})"]
    return element("td", element("b", f"{cell.mean:,.{digits}f}"), " ", _small(" ".join(beside)))


def _difference(found: Estimate, note: str = "") -> str:
    interval = _small(f"[{found.low:.2f}, {found.high:.2f}]{note}")
    return element("td", element("b", f"{found.mean:.2f}"), " ", interval, class_=shade(found.mean))


def _some(one: StudyDifference) -> str:
    """Says how many tasks a difference covers; empty if these are all."""
    tasks = len(names_in(one.suite))
    return "" if len(one.tasks) == tasks else f", {len(one.tasks)} of {tasks} tasks"


def _small(content: str) -> str:
    return element("small", escaped(content))
