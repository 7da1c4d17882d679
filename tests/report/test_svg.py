"""Checks elements, paths, scales and ticks of SVG pictures."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from mrq.report.formatting import short, shortened
from mrq.report.markup import element, escaped, number
from mrq.report.svg import path, picture, scale, side_by_side, text, ticks


def test_text_from_outside_is_escaped():
    hostile = '</text><script>alert("1")</script>\x00&'
    drawn = ElementTree.fromstring(picture(10, 10, hostile, [text(1, 2, hostile)]))
    (child,) = drawn
    assert child.text == '</text><script>alert("1")</script>\N{REPLACEMENT CHARACTER}&'
    assert drawn.get("aria-label") == child.text
    assert escaped("<a href='x'>") == "&lt;a href=&#x27;x&#x27;&gt;"


def test_elements_by_hand():
    assert element("a", "b", class_="c", font_size=10, x=0.25, none="") == '<a class="c" font-size="10" x="0.2">b</a>'
    assert [number(value) for value in (-0.04, 3.0, 2.55, 1e6)] == ["0", "3", "2.5", "1000000"]


def test_paths_by_hand():
    xs = np.array([0.0, 10.0])
    assert 'd="M0 5L10 6.2"' in path(xs, np.array([5.0, 6.25]))
    assert 'd="M0 1L10 2L10 4L0 3Z"' in path(xs, np.array([1.0, 2.0]), np.array([3.0, 4.0]))


def test_a_scale_by_hand():
    y = scale((-1, 1), (100, 0))
    assert (y(-1), y(0), y(1)) == (100, 50, 0)
    assert y(np.array([0.5])).tolist() == [25]


@pytest.mark.parametrize(
    ("low", "high", "most", "expected"),
    [
        (0, 1_000_000, 6, [0, 200_000, 400_000, 600_000, 800_000, 1_000_000]),
        (-0.1, 1.6, 5, [0, 0.5, 1, 1.5]),
        (693, 721, 5, [700, 710, 720]),
        (-5, 5, 2, [0]),
        (0.001, 0.0049, 5, [0.001, 0.002, 0.003, 0.004]),
    ],
)
def test_ticks_are_round_numbers_within_the_range(low, high, most, expected):
    found = ticks(low, high, most)
    assert len(found) <= most
    assert found == pytest.approx(expected)


def test_short_numbers():
    assert [short(value) for value in (0, 0.25, 12_500, -2_000, 1e6, 2.5e6)] == [
        "0",
        "0.25",
        "12.5k",
        "-2k",
        "1M",
        "2.5M",
    ]
    assert (shortened("abcdef", 4), shortened("abcd", 4)) == ("abc…", "abcd")


def test_pictures_stand_side_by_side_in_rows():
    one = picture(100, 50, "one", [])
    together = ElementTree.fromstring(side_by_side([(one, 100, 50)] * 3, 2, 10, "all"))
    assert together.get("viewBox") == "0 0 210 110"
    assert [child.get("transform") for child in together] == ["translate(0 0)", "translate(110 0)", "translate(0 60)"]
