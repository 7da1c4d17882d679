"""A panel of the paper's front page: the mean scores of a suite as bars with intervals, ours and the paper's."""

from mrq.report.columns import PAPER, place_of_paper, without_variants
from mrq.report.formatting import short, shortened
from mrq.report.markup import element
from mrq.report.scores import unit_of
from mrq.report.suites import NAMES
from mrq.report.svg import FAINT, GRID, INK, PALETTE, Scale, picture, scale, text, ticks
from mrq.report.tables import Cell, SuiteTable

WIDTH, LEFT, RIGHT, TOP, ROW, BAR, BOTTOM = 360, 122, 40, 44, 22, 13, 26
THEIRS = "#b3b3b3"


def draw_bars(table: SuiteTable, colours: dict[str, int]) -> tuple[str, float, float]:
    """Returns the picture, its width and its height."""
    unit = unit_of(table.suite)
    digits = 2 if unit == 1 else 3  # as in the paper
    cells = [(name, _scaled(cell, unit)) for name, cell in bars(table)]
    ends: list[float] = [end for _, cell in cells for end in (cell.mean, *(cell.interval or ()))]
    low, high = min([0.0, *ends]), max([0.0, *ends]) or 1.0
    height = TOP + ROW * len(cells) + BOTTOM
    x = scale((low, high), (LEFT, WIDTH - RIGHT))
    title, name = NAMES[table.suite]
    body = [
        text(0, 13, title, class_="title", font_size=13, font_weight="bold", fill=INK),
        text(0, 28, f"{name}, mean of {len(table.rows)} tasks", class_="faint", fill=FAINT),
    ]
    bottom = TOP + ROW * len(cells)
    for tick in ticks(low, high, 5):
        body.append(element("line", class_="grid", x1=x(tick), x2=x(tick), y1=TOP - 4, y2=bottom, stroke=GRID))
        body.append(text(x(tick), bottom + 13, short(tick), class_="faint", fill=FAINT, text_anchor="middle"))
    for row, (name, cell) in enumerate(cells):
        body.append(_bar(name, cell, TOP + ROW * row, x, digits, colours))
    return picture(WIDTH, height, f"Mean scores in {title}", body), WIDTH, height


def bars(table: SuiteTable) -> list[tuple[str, Cell]]:
    """Returns ours without the design study's variants, then the same algorithms in the paper, then its others.

    The paper's other algorithms are ordered from the best to the worst.
    """
    means = table.aggregates["Mean"]
    ours = [name for name in without_variants(table.ours) if name in means]
    theirs = sorted(
        (name for name in table.theirs if name in means),
        key=lambda name: (place_of_paper(name, ours), -means[name].mean),
    )
    return [(name, means[name]) for name in [*ours, *theirs]]


def _bar(name: str, cell: Cell, top: float, x: Scale, digits: int, colours: dict[str, int]) -> str:
    middle, left, right = top + ROW / 2 - 2, min(x(0), x(cell.mean)), max(x(0), x(cell.mean))
    ours = cell.seeds is not None
    colour = colours.get(name if ours else name.removesuffix(PAPER))
    area = {"x": left, "y": middle - BAR / 2, "width": right - left, "height": BAR}
    style = {"class_": "theirs", "fill": THEIRS}
    if colour is not None:
        style = {"class_": f"c{colour}", "fill": PALETTE[colour], "fill_opacity": "1" if ours else "0.4"}
    parts = [
        text(LEFT - 8, middle + 3.5, shortened(name, 20), class_="ink", fill=INK, text_anchor="end"),
        element("rect", **area, fill="#ffffff", class_="back"),  # hides the grid behind pale bars
        element("rect", **area, **style),
    ]
    if cell.interval is not None:
        low, high = map(x, cell.interval)
        d = f"M{low:.1f} {middle:.1f}H{high:.1f}M{low:.1f} {middle - 3:.1f}v6M{high:.1f} {middle - 3:.1f}v6"
        parts.append(element("path", class_="whisker", d=d, stroke=INK, fill="none"))
    end = max([right, *(map(x, cell.interval or ()))])
    parts.append(text(end + 5, middle + 3.5, f"{cell.mean:.{digits}f}", class_="ink", fill=INK))
    return element("g", *parts, font_weight="bold") if ours else element("g", *parts)


def _scaled(cell: Cell, unit: float) -> Cell:
    interval = cell.interval and (cell.interval[0] / unit, cell.interval[1] / unit)
    return Cell(cell.mean / unit, interval, cell.seeds)
