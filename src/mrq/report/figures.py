"""Every figure of a report, by the name of its file: the front page's bars, and learning curves by steps and hours."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from mrq.benchmark.variants import VARIANTS
from mrq.errors import MRQError
from mrq.report.bars import draw_bars
from mrq.report.curve_figure import HOURS, draw_curves
from mrq.report.curves import Panel
from mrq.report.report import Report
from mrq.report.svg import PALETTE, side_by_side
from mrq.report.writing import write

GAP = 24  # between pictures in one figure
Kind = Literal["aggregate", "panel", "suite", "task", "both"]
LEAST_TIMED = 2  # algorithms, before their hours are compared


@dataclass(frozen=True)
class Figure:
    kind: Kind  # all of the front page, a suite of it, learning curves, or those of steps and hours as one
    of: str  # the suite or task
    name: str  # of its file, without .svg
    svg: str
    hover: dict[str, Any] | None = None  # what a page needs to know to show its values; None where it shows none


def draw(report: Report) -> list[Figure]:
    colours = colours_of(report.algorithms)
    bars = {table.suite: draw_bars(table, colours) for table in report.tables if table.whole}
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
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise MRQError(f"figures cannot be written to {folder}: {error.strerror}; choose another --figures.") from None
    for figure in figures:
        write(folder / f"{figure.name}.svg", figure.svg)


def colours_of(algorithms: Sequence[str]) -> dict[str, int]:
    """Places in the palette; the design study's variants come last, and what it has no colour for is not drawn."""
    variants_last = sorted(algorithms, key=lambda name: name in VARIANTS)
    return {name: place for place, name in enumerate(variants_last[: len(PALETTE)])}


def _curves(kind: Kind, panel: Panel, colours: dict[str, int]) -> list[Figure]:
    """By steps; where hours can be compared, also by hours, and both as one."""
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
    """Without what does not belong into a file's name, and no two the same."""
    made: dict[str, None] = {}
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9._+-]+", "-", name)[:120]
        different = (f"{plain}-{count}" for count in range(2, len(names) + 2))
        made[plain if plain not in made else next(other for other in different if other not in made)] = None
    return list(made)
