"""Checks the points of pictures against numbers computed by hand, and the files that they are written to."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from mrq import MRQError
from mrq.environments.tasks import names_in
from mrq.report.bars import bars, draw_bars
from mrq.report.columns import VARIANTS
from mrq.report.curve_figure import HOURS, draw_curves
from mrq.report.curves import task_panels
from mrq.report.figures import colours_of, draw, file_names, write_figures
from mrq.report.report import build
from mrq.report.svg import PALETTE
from mrq.report.tables import suite_table
from tests.report.example_runs import run

SVG = "{http://www.w3.org/2000/svg}"


def shapes(svg, kind, name):
    """Returns the elements of a kind with this class."""
    return [found for found in ElementTree.fromstring(svg).iter(SVG + kind) if name in found.get("class", "").split()]


def points(found):
    return [tuple(map(float, point.split())) for point in found.get("d").strip("MZ").split("L")]


def test_a_curves_points_by_hand():
    """Steps 0 to 1M are drawn between 44 and 348. The value axis adds a 25th of the range at both ends."""
    (panel,) = task_panels([run("gym/Hopper-v4", seed, 2000.0 + 2000 * seed) for seed in range(2)])
    svg, _, _, hover = draw_curves(panel, {"MR.Q": 0})
    (line,) = shapes(svg, "path", "line")
    left, top, right, bottom = hover["box"]
    assert (left, right, bottom - top) == (44, 348, 150)
    low, high = -160, 4160  # the interval goes from 0 to 4,000
    assert hover["range"] == [low, high]
    heights = [bottom - (value - low) / (high - low) * 150 for value in (0, 1500, 3000)]
    assert points(line) == [(x, pytest.approx(y, abs=0.051)) for x, y in zip((44, 196, 348), heights, strict=True)]
    (band,) = shapes(svg, "path", "band")
    ends = [0, 1000, 2000, 4000, 2000, 0]  # forth along the lower ends, back along the upper ones
    assert [y for _, y in points(band)] == pytest.approx(
        [bottom - (v - low) / (high - low) * 150 for v in ends], abs=0.051
    )
    assert (line.get("stroke"), line.get("stroke-dasharray")) == (PALETTE[0], None)
    assert [text.text for text in shapes(svg, "text", "ink")] == ["MR.Q (2 seeds)", "MR.Q in the paper"]
    assert len(shapes(svg, "path", "paper")) == 2  # in the legend, and at the end
    (curve,) = hover["curves"]
    assert (curve["steps"], curve["mean"], curve["high"]) == ([0, 500_000, 1_000_000], [0, 1500, 3000], [0, 2000, 4000])
    assert hover["paper"] == [1_000_000, 2692, 2131, 3309]


def test_unfinished_runs_are_dashed_and_end_within_the_axis_of_the_suite():
    (panel,) = task_panels([run("dmc/cheetah-run", 0, 600.0, steps=250_000)])
    svg, _, _, hover = draw_curves(panel, {"MR.Q": 0})
    (line,) = shapes(svg, "path", "line")
    assert line.get("stroke-dasharray") == "4 3"
    assert points(line)[-1][0] == (44 + 348) / 2  # half of 500,000 steps
    assert [text.text for text in shapes(svg, "text", "ink")] == ["MR.Q (1 seed, to 250k)"]
    assert (shapes(svg, "path", "paper"), hover["paper"]) == ([], None)


def test_points_against_hours_by_hand():
    """PPO takes one hour, MR.Q four on average. They are drawn between 44 and 348, at the same heights as by steps."""
    records = [run("gym/Hopper-v4", seed, 2000.0, seconds=10_800.0 + 7_200 * seed) for seed in range(2)]
    records += [run("gym/Hopper-v4", 0, 3000.0, "PPO", seconds=3_600.0)]
    records += [run("gym/Hopper-v4", 0, 4000.0, "SAC", seconds=None)]
    (panel,) = task_panels(records)
    colours = {"MR.Q": 0, "PPO": 1, "SAC": 2}
    steps, hours = draw_curves(panel, colours), draw_curves(panel, colours, HOURS)
    ppo, ours = shapes(hours.svg, "path", "line")  # the first colour is drawn last
    assert [x for x, _ in points(ppo)] == [44, 82, 120]
    assert [x for x, _ in points(ours)] == [44, 196, 348]
    by_steps = shapes(steps.svg, "path", "line")[1:]
    assert [[y for _, y in points(line)] for line in (ppo, ours)] == [[y for _, y in points(line)] for line in by_steps]
    assert (hours.height, hours.hover["box"]) == (steps.height, steps.hover["box"])
    assert [text.text for text in shapes(hours.svg, "text", "ink")] == ["MR.Q (2 seeds)", "PPO (1 seed)"]
    assert "hours of training" in [text.text for text in shapes(hours.svg, "text", "faint")]
    assert (shapes(hours.svg, "path", "paper"), hours.hover["paper"]) == ([], None)  # the paper used other hardware
    assert (steps.hover["axis"], hours.hover["axis"], hours.hover["last"]) == ("steps", "hours", 4)
    data = {curve["name"]: (curve["hours"], curve["steps"]) for curve in hours.hover["curves"]}
    at = [0, 500_000, 1_000_000]
    assert data == {"MR.Q (2 seeds)": ([0, 2, 4], at), "PPO (1 seed)": ([0, 0.5, 1], at)}
    assert "hours" not in steps.hover["curves"][0]


@pytest.mark.parametrize(("other", "seconds"), [(None, None), ("no-lap", 2.0), ("SAC", None)])
def test_the_hours_of_a_single_algorithm_are_not_drawn(other, seconds):
    records = [run("gym/Hopper-v4", 0, 2000.0)]
    records += [run("gym/Hopper-v4", 0, 2000.0, other, seconds=seconds)] if other else []
    assert [figure.name for figure in draw(build(records))] == ["curve-gym", "curve-gym-Hopper-v4"]


def test_steps_and_hours_are_also_drawn_side_by_side():
    records = [run("gym/Hopper-v4", 0, 2000.0), run("gym/Hopper-v4", 0, 2000.0, "<i>"), run("gym/Ant-v4", 0, 2000.0)]
    figures = draw(build(records))
    assert [(figure.kind, figure.name) for figure in figures] == [
        ("suite", "curve-gym"),  # the other lacks a task
        ("task", "curve-gym-Ant-v4"),
        ("task", "curve-gym-Hopper-v4"),
        ("task", "hours-gym-Hopper-v4"),
        ("both", "steps-and-hours-gym-Hopper-v4"),
    ]
    both = ElementTree.fromstring(figures[-1].svg)
    assert [child.get("transform") for child in both] == ["translate(0 0)", "translate(384 0)"]
    assert "<i>" not in figures[-1].svg


def test_bars_by_hand():
    table = suite_table(
        "gym",
        [run(task, seed, 2000.0, name) for task in names_in("gym") for seed in range(2) for name in ("MR.Q", "no-lap")],
    )
    names = [name for name, _ in bars(table)]
    assert names == ["MR.Q", *(f"{name} (paper)" for name in ("MR.Q", "TD7", "TD-MPC2", "DreamerV3", "PPO"))]
    svg, width, height = draw_bars(table, {"MR.Q": 0, "no-lap": 1})
    assert ElementTree.fromstring(svg).get("viewBox") == f"0 0 {width} {height}"
    (zero, end) = 122, 320  # the longest interval is TD7's, to 1.60
    own, papers = shapes(svg, "rect", "c0")
    assert float(papers.get("x")) == zero
    assert float(papers.get("width")) == pytest.approx(1.46 / 1.60 * (end - zero), abs=0.051)
    assert (own.get("fill-opacity"), papers.get("fill-opacity")) == ("1", "0.4")
    theirs = [float(found.get("width")) for found in shapes(svg, "rect", "theirs")]
    assert theirs == pytest.approx([value / 1.60 * (end - zero) for value in (1.57, 1.04, 0.76, 0.45)], abs=0.051)
    whisker = shapes(svg, "path", "whisker")[1].get("d")
    assert [float(x) for x in re.match(r"M([\d.]+) [\d.]+H([\d.]+)", whisker).groups()] == pytest.approx(
        [zero + value / 1.60 * (end - zero) for value in (1.41, 1.52)], abs=0.051
    )


def test_every_figure_has_its_own_file(tmp_path):
    records = [run(task, 0, 2000.0) for task in names_in("gym")] + [run("gym/<b>:a/b", 0, 1.0, "<i>")]
    figures = draw(build(records))
    write_figures(figures, tmp_path / "figures")
    tasks = [f"curve-gym-{name}" for name in ("Ant-v4", "HalfCheetah-v4", "Hopper-v4", "Humanoid-v4", "Walker2d-v4")]
    names = ["aggregate", "aggregate-gym", "curve-gym", "curve-gym-b-a-b", *tasks]
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == sorted(f"{name}.svg" for name in names)
    for path in (tmp_path / "figures").iterdir():
        assert ElementTree.parse(path).getroot().tag == f"{SVG}svg"
    hostile = (tmp_path / "figures" / "curve-gym-b-a-b.svg").read_text()
    assert "&lt;b&gt;:a/b" in hostile
    assert "<i>" not in hostile
    (tmp_path / "file").write_text("")
    with pytest.raises(MRQError, match=r"figures cannot be written to .*file: File exists; choose another --figures\."):
        write_figures(figures, tmp_path / "file")


def test_bars_are_drawn_for_complete_suites_only():
    kinds = [figure.kind for figure in draw(build([run("gym/Hopper-v4", 0, 2000.0)]))]
    assert kinds == ["suite", "task"]


def test_file_names_are_plain_and_differ():
    assert file_names(["a/b", "a-b", "a b", "a-b-2"]) == ["a-b", "a-b-2", "a-b-3", "a-b-2-2"]


def test_colours_go_to_algorithms_before_variants():
    names = ["MR.Q", *VARIANTS, "PPO", "SAC"]
    found = colours_of(names)
    assert list(found)[:4] == ["MR.Q", "PPO", "SAC", next(iter(VARIANTS))]
    assert list(found.values()) == list(range(len(PALETTE)))
