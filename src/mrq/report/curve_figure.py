"""Learning curves as a picture: one line per algorithm with its interval, dashed if its seeds are not finished."""

from collections.abc import Callable
from typing import Any, NamedTuple

from mrq.interface import Array
from mrq.printable import printable
from mrq.report.columns import MAIN
from mrq.report.curves import Curve, Panel
from mrq.report.formatting import counted, short, shortened
from mrq.report.intervals import Estimate
from mrq.report.markup import element
from mrq.report.svg import FAINT, GRID, INK, LETTER, PALETTE, Scale, path, picture, scale, text, ticks

WIDTH, LEFT, RIGHT, PLOT, BOTTOM = 360, 44, 12, 150, 34
TITLE, LEGEND = 20, 14  # heights
MOST_EMPTY = 2  # if no curve has reached this fraction (1/2) of the axis, the axis ends at the longest curve
PAPER = f"{MAIN} in the paper"


class Axis(NamedTuple):
    """What returns are drawn against."""

    name: str
    title: str
    places: Callable[[Curve], Array | None]  # of a curve's points; None if unknown
    final: Callable[[Panel], int | None]  # the place of the paper's results; None if unknown


STEPS = Axis("steps", "environment steps", lambda curve: curve.steps, lambda panel: panel.final_step)
HOURS = Axis("hours", "hours of training", lambda curve: curve.hours, lambda _: None)  # the paper used other hardware


class Picture(NamedTuple):
    """A drawn panel."""

    svg: str
    width: float
    height: float
    hover: dict[str, Any]  # what a page needs to show the values under the pointer


def draw_curves(panel: Panel, colours: dict[str, int], axis: Axis = STEPS) -> Picture:
    """Draws a panel. Its pictures have the same heights on every axis, so that they can stand side by side."""
    coloured = [curve for curve in panel.curves if curve.algorithm in colours]
    coloured.sort(key=lambda curve: colours[curve.algorithm])
    curves = [(curve, places) for curve in coloured if (places := axis.places(curve)) is not None]
    final = axis.final(panel)
    paper = None if final is None else panel.paper
    legend, _ = _legend([curve for curve, _ in curves], paper is not None, colours)
    _, rows = _legend(coloured, panel.paper is not None, colours)
    top, right = TITLE + LEGEND * rows + 10, WIDTH - RIGHT
    bottom = top + PLOT
    longest = max((places.max().item() for _, places in curves), default=0) or 1
    last = longest if final is None or longest < final / MOST_EMPTY else max(final, longest)
    low, high = _range(panel, coloured)
    x, y = scale((0, last), (LEFT, right)), scale((low, high), (bottom, top))
    body = [
        text(0, 12, shortened(panel.title, 44), class_="title", font_size=12, font_weight="bold", fill=INK),
        text(right, 12, panel.unit, class_="faint", fill=FAINT, text_anchor="end"),
        *legend,
        *_axes(x, y, ticks(0, last, 6), ticks(low, high, 5), bottom, axis.title),
        *(_line(curve, x(places), colours[curve.algorithm], y) for curve, places in reversed(curves)),
    ]
    if paper is not None:
        body.append(_paper(paper, x(final), y))
    height = bottom + BOTTOM
    hover = {
        "box": [LEFT, top, right, bottom],
        "width": WIDTH,
        "axis": axis.name,
        "last": last,
        "range": [low, high],
        "curves": [
            _data(curve, colours[curve.algorithm]) | {axis.name: places.round(5).tolist()} for curve, places in curves
        ],
        "paper": paper and [final, *map(_rounded, paper)],
        "paperName": PAPER,
    }
    svg = picture(WIDTH, height, f"Learning curves against {axis.title}: {panel.title}", body)
    return Picture(svg, WIDTH, height, hover)


def label(curve: Curve) -> str:
    """Returns a curve's entry in the legend."""
    so_far = "" if curve.finished else f", to {short(curve.steps[-1])}"
    return f"{printable(curve.algorithm)} ({counted(curve.seeds, 'seed')}{so_far})"


def _axes(x: Scale, y: Scale, places: list[float], values: list[float], bottom: float, title: str) -> list[str]:
    drawn, right = [], WIDTH - RIGHT
    for value in values:
        drawn.append(element("line", class_="grid", x1=LEFT, x2=right, y1=y(value), y2=y(value), stroke=GRID))
        drawn.append(text(LEFT - 6, y(value) + 3.5, short(value), class_="faint", fill=FAINT, text_anchor="end"))
    names = [(x(place), bottom + 14, short(place)) for place in places]
    names.append(((LEFT + right) / 2, bottom + 28, title))
    return drawn + [text(*name, class_="faint", fill=FAINT, text_anchor="middle") for name in names]


def _line(curve: Curve, xs: Array, place: int, y: Scale) -> str:
    colour = PALETTE[place]
    parts = [
        path(xs, y(curve.low), y(curve.high), class_=f"band c{place}", fill=colour, fill_opacity="0.18"),
        path(xs, y(curve.mean), fill="none", stroke_linejoin="round", **_stroke(curve, place)),
    ]
    if len(xs) == 1:
        parts.append(element("circle", class_=f"dot c{place}", cx=xs[0], cy=y(curve.mean)[0], r=2.5, fill=colour))
    return element("g", *parts)


def _paper(result: Estimate, x: float, y: Scale) -> str:
    whisker = element("path", class_="whisker", d=f"M{x:.1f} {y(result.low):.1f}V{y(result.high):.1f}", stroke=INK)
    return whisker + _diamond(x, y(result.mean))


def _legend(curves: list[Curve], paper: bool, colours: dict[str, int]) -> tuple[list[str], int]:
    """Returns the drawn entries and the number of rows that they fill."""
    entries: list[tuple[str, Curve | None]] = [(label(curve), curve) for curve in curves]
    drawn, x, row = [], 0.0, 0
    for name, curve in [*entries, *([(PAPER, None)] if paper else [])]:
        name = shortened(name, 58)
        width = 20 + len(name) * 10 * LETTER + 10
        if x and x + width > WIDTH:
            x, row = 0.0, row + 1
        at = TITLE + LEGEND * row + 6
        if curve is None:
            drawn.append(_diamond(x + 7, at))
        else:
            style = _stroke(curve, colours[curve.algorithm])
            drawn.append(element("line", x1=x, x2=x + 14, y1=at, y2=at, **style))
        drawn.append(text(x + 20, at + 3.5, name, class_="ink", fill=INK))
        x += width
    return drawn, row + 1


def _stroke(curve: Curve, place: int) -> dict[str, Any]:
    dashes = "" if curve.finished else "4 3"
    return {"class_": f"line c{place}", "stroke": PALETTE[place], "stroke_width": 1.6, "stroke_dasharray": dashes}


def _diamond(x: float, y: float) -> str:
    return element("path", class_="paper", d=f"M{x:.1f} {y - 4:.1f}l4 4l-4 4l-4 -4Z", fill=INK)


def _range(panel: Panel, curves: list[Curve]) -> tuple[float, float]:
    ends = [float(end) for curve in curves for end in (curve.low.min(), curve.high.max())] + list(panel.paper or ())
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    room = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
    return low - room, high + room


def _data(curve: Curve, place: int) -> dict[str, Any]:
    numbers = {"mean": curve.mean, "low": curve.low, "high": curve.high}
    return {
        "name": label(curve),
        "colour": place,
        "steps": [int(step) for step in curve.steps],
        **{key: [_rounded(value) for value in values] for key, values in numbers.items()},
    }


def _rounded(value: float) -> float:
    """Returns a value to five digits, so that a page of all tasks stays small."""
    return float(f"{value:.5g}")
