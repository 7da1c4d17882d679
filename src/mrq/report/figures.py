"""The figures of a report, each with the name of its file: bars of mean scores, learning curves by steps and hours."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from mrq.errors import MRQError
from mrq.report.bars import draw_bars
from mrq.report.columns import VARIANTS
from mrq.report.curve_figure import HOURS, draw_curves
from mrq.report.curves import Panel
from mrq.report.report import Report
from mrq.report.svg import PALETTE, side_by_side
from mrq.report.writing import write

GAP = 24  # between pictures in one figure
Kind = Literal["aggregate", "panel", "suite", "task", "both"]
LEAST_TIMED = 2  # hours are compared between two algorithms or more


@dataclass(frozen=True)
class Figure:
    """A drawn figure."""

    kind: Kind  # all suites' bars, one suite's bars, curves of a suite or a task, or steps and hours side by side
    of: str  # the suite or task
    name: str  # of its file, without .svg
    svg: str
    hover: dict[str, Any] | None = None  # what a page needs to show the values under the pointer; None if it shows none


def draw(report: Report) -> list[Figure]:
    """Draws all figures of a report."""
    colours = colours_of(report.algorithms)
    bars = {table.suite: draw_bars(table, colours) for table in report.tables if table.complete}
    drawn = [Figure("panel", suite, f"aggregate-{suite}", svg) for suite, (svg, _, _) in bars.items()]
    if bars:
        together = side_by_side(list(bars.values()), 2, GAP, "Mean scores, ours and the paper's")
        drawn.append(Figure("aggregate", "", "aggregate", together))
    for panel in report.suite_curves:
        drawn += _curves("suite", panel, colours)
    for panel in report.task_curves:
        drawn += _curves("task", panel, colours)
    names = file_names([figure.name for figure in drawn])
    return [replace(figure, name=name) for figure, name in zip(drawn, names, strict=True)]


def write_figures(figures: Sequence[Figure], folder: Path) -> None:
    """Writes every figure to its own file."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise MRQError(f"figures cannot be written to {folder}: {error.strerror}; choose another --figures.") from None
    for figure in figures:
        write(folder / f"{figure.name}.svg", figure.svg)


def colours_of(algorithms: Sequence[str]) -> dict[str, int]:
    """Returns places in the palette, variants of the design study last; algorithms without a colour are not drawn."""
    variants_last = sorted(algorithms, key=lambda name: name in VARIANTS)
    return {name: place for place, name in enumerate(variants_last[: len(PALETTE)])}


def _curves(kind: Kind, panel: Panel, colours: dict[str, int]) -> list[Figure]:
    """Draws curves by steps; if hours can be compared, also by hours, and both side by side."""
    of, steps = panel.name, draw_curves(panel, colours)
    drawn = [Figure(kind, of, f"curve-{of}", steps.svg, steps.hover)]
    if len(panel.timed & colours.keys()) >= LEAST_TIMED:
        hours = draw_curves(panel, colours, HOURS)
        title = f"Learning curves against steps and hours: {panel.title}"
        together = side_by_side([steps[:3], hours[:3]], 2, GAP, title)
        drawn.append(Figure(kind, of, f"hours-{of}", hours.svg, hours.hover))
        drawn.append(Figure("both", of, f"steps-and-hours-{of}", together))
    return drawn


def file_names(names: Sequence[str]) -> list[str]:
    """Returns plain and different file names."""
    made: dict[str, None] = {}
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9._+-]+", "-", name)[:120]
        different = (f"{plain}-{count}" for count in range(2, len(names) + 2))
        made[plain if plain not in made else next(other for other in different if other not in made)] = None
    return list(made)
