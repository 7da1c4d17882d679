"""Writes SVG pictures that can be used on their own and recoloured by a page's style sheet.

Colours are presentation attributes, which any style sheet overrides by class.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mrq.interface import Array
from mrq.report.markup import element, escaped, number

FONT = "Helvetica Neue, Helvetica, Arial, sans-serif"
INK, FAINT, GRID = "#1a1a1a", "#666666", "#dddddd"
# Okabe and Ito's colours, which colour-blind people can distinguish; without yellow, which is hard to see on white.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a4f9a", "#000000")
Scale = Callable[[Any], Any]
LETTER = 0.55  # the mean width of a letter, in font sizes


def text(x: float, y: float, content: str, **attributes: str | float) -> str:
    """Returns a line of text at this place."""
    return element("text", escaped(content), x=x, y=y, **attributes)


def picture(width: float, height: float, label: str, body: Iterable[str]) -> str:
    """Returns a whole SVG picture; `label` is for readers who cannot see it."""
    return element(
        "svg",
        *body,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=width,
        height=height,
        font_family=FONT,
        font_size=10,
        role="img",
        aria_label=label,
    )


def side_by_side(pictures: Sequence[tuple[str, float, float]], columns: int, gap: float, label: str) -> str:
    """Returns several pictures, each with its width and height, as one picture."""
    body, x, y, tallest, widest = [], 0.0, 0.0, 0.0, 0.0
    for place, (drawn, width, height) in enumerate(pictures):
        if place and place % columns == 0:
            x, y, tallest = 0.0, y + tallest + gap, 0.0
        body.append(element("g", drawn, transform=f"translate({number(x)} {number(y)})"))
        x, tallest, widest = x + width + gap, max(tallest, height), max(widest, x + width)
    return picture(widest, y + tallest, label, body)


def path(xs: Array, ys: Array, back: Array | None = None, **attributes: str | float) -> str:
    """Returns a line through the points; with `back`, the area between the heights `ys` and `back`."""
    points = [f"{number(x)} {number(y)}" for x, y in zip(xs, ys, strict=True)]
    if back is not None:
        points += [f"{number(x)} {number(y)}" for x, y in zip(xs[::-1], back[::-1], strict=True)]
    return element("path", d=f"M{'L'.join(points)}{'' if back is None else 'Z'}", **attributes)


def scale(numbers: tuple[float, float], places: tuple[float, float]) -> Scale:
    """Returns the linear function from a range of numbers to a range of places, for numbers and arrays."""
    (low, high), (start, end) = numbers, places
    return lambda value: start + (value - low) / (high - low) * (end - start)


def ticks(low: float, high: float, most: int) -> list[float]:
    """Returns up to `most` round numbers within a range."""
    rough = (high - low) / most
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10, 20) if _count(low, high, size * factor) <= most)
    return [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _count(low: float, high: float, step: float) -> int:
    return math.floor(high / step + 1e-9) - math.ceil(low / step - 1e-9) + 1
