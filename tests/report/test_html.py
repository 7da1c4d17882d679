"""Reads the HTML page as a browser does."""

import json
import re
from html.parser import HTMLParser

import pytest

from mrq.environments.tasks import names_in
from mrq.report.figures import draw
from mrq.report.html import html
from mrq.report.html_tables import shade
from mrq.report.report import build
from tests.report.example_runs import run

VOID = {"meta"}
HOSTILE = '</script><script>alert("1")</script><img src=x onerror=alert(2)>'


class Page(HTMLParser):
    """A parser that checks that elements nest, and keeps their attributes and texts."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.texts, self.scripts = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        (self.scripts if self.open and self.open[-1] == "script" else self.texts).append(data)


def page(records):
    report = build(records)
    return html(report, draw(report))


@pytest.fixture(scope="module")
def whole():
    """Returns a page of a complete suite, an unfinished run, two algorithms, a variant and a task not in the paper."""
    records = [run(task, seed, 2000.0) for task in names_in("gym") for seed in range(2)]
    records += [run("gym/Ant-v4", 0, 2000.0 * share, name) for name, share in (("no-lap", 0.5), ("PPO", 0.7))]
    records += [run("gym/Ant-v4", 5, 900.0, steps=100_000), run("gym/CartPole-v1", 0, 500.0, steps=30_000)]
    return page(records)


def test_the_page_loads_nothing_else(whole):
    found = Page(whole)
    assert {"script", "style", "svg", "table", "figure"} <= {tag for tag, _ in found.elements}
    for _, attributes in found.elements:
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
    assert set(re.findall(r"https?://[^\s\"']+", whole)) == {"http://www.w3.org/2000/svg"}
    assert "@import" not in whole
    assert "url(" not in whole.lower().replace("createobjecturl(", "")


def test_the_contents_link_to_the_sections(whole):
    found = Page(whole)
    links = [attributes["href"][1:] for tag, attributes in found.elements if tag == "a"]
    assert links == ["summary", "gym", "other", "study", "uncompared", "runs", "missing"]
    assert [attributes["id"] for tag, attributes in found.elements if tag == "section"] == links


def test_tables_have_our_results_beside_the_papers(whole):
    assert re.search(
        r'<th scope="row">Hopper-v4</th><td><b>2,000</b> <small>\[2,000, 2,000\] \(2\)</small></td>', whole
    )
    suite = whole.partition('id="gym"')[2]
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', suite.partition("</thead>")[0])
    assert heads[:4] == ["task", "MR.Q", "PPO", "MR.Q (paper)"]
    assert "no-lap" not in heads
    assert "100k of 1M" in whole
    text = " ".join(Page(whole).texts)
    assert "Incomplete suites are left out. MR.Q has completed: DMC proprioceptive (0 of 28 tasks)" in text
    assert "14 runs" in text


def test_every_figure_of_curves_has_data_for_the_pointer(whole):
    found = Page(whole)
    names = [attributes["data-name"] for tag, attributes in found.elements if tag == "figure"]
    data = json.loads(found.scripts[0])
    assert set(data) == {name for name in names if name.startswith(("curve-", "hours-"))}
    ant = data["curve-gym-Ant-v4"]
    assert [curve["name"] for curve in ant["curves"]] == [
        "MR.Q (2 seeds)", "MR.Q (1 seed, to 100k)", "PPO (1 seed)", "no-lap (1 seed)",
    ]  # fmt: skip
    assert ant["curves"][2]["mean"] == [0, 700, 1400]


def test_curves_by_steps_and_by_hours_stand_side_by_side(whole):
    pairs = re.findall(r'<div class="pair"><figure data-name="([^"]*)">.*?<figure data-name="([^"]*)">', whole)
    assert pairs == [("curve-gym-Ant-v4", "hours-gym-Ant-v4")]  # the only task with two algorithms
    assert "The hours of a point are the mean over its seeds" in " ".join(Page(whole).texts)
    alone = page([run("gym/Hopper-v4", 0, 1.0), run("gym/Hopper-v4", 0, 1.0, "no-lap")])
    assert 'class="pair"' not in alone
    assert "The hours of a point" not in " ".join(Page(alone).texts)


def test_the_page_says_if_hours_are_from_different_machines():
    def on(device, precision="bf16"):
        return (("device", device), ("CPU", "8 cores"), ("precision", precision))

    def says(*provenances):
        records = [run("gym/Hopper-v4", seed, 1.0, provenance=one) for seed, one in enumerate(provenances[1:])]
        text = " ".join(Page(page([*records, run("gym/Hopper-v4", 0, 1.0, "PPO", provenance=provenances[0])])).texts)
        note = text.partition("The hours of a point")[2].partition("each count its hours.")[2]
        return re.findall(r"Not all ran[^:]*|Runs of[^:]*", note.partition("Gym locomotion:")[0])

    assert says(on("CPU"), on("CPU"), on("CPU")) == []
    assert says(on("CPU"), on("GPU"), on("GPU")) == ["Not all ran on the same hardware"]
    mixed = "Runs of MR.Q differ among themselves in hardware, versions or settings"
    assert says(on("CPU"), on("CPU"), on("CPU", "float32")) == [mixed]
    assert says(on("CPU"), on("CPU"), on("GPU")) == ["Not all ran on the same hardware", mixed]


def test_speed_and_size_of_every_algorithm():
    records = [run("gym/Hopper-v4", 0, 1.0, seconds=10_000.0, parameters=4_651_234)]
    records += [run("gym/Ant-v4", 0, 1.0, seconds=10_000.0, parameters=4_712_000)]
    records += [run("gym/Hopper-v4", 0, 1.0, HOSTILE, seconds=500.0), run("gym/Hopper-v4", 0, 1.0, "no-lap")]
    records += [run("gym/Hopper-v4", 0, 1.0, "SAC", seconds=None), run("gym/X", 0, 1.0, steps=900, parameters=834)]
    text = page(records)
    summary = text.partition('id="summary"')[2].partition("</section>")[0]
    body = summary.partition("<tbody>")[2]
    rows = [re.findall(r"<t[hd][^>]*>([^<]*)<", row) for row in body.split("</tr>")[:-1]]
    assert rows[0] == ["MR.Q", "100", "4.65M to 4.71M", "450", "834"]
    assert rows[1][1:] == ["2,000", "-", "-", "-"]
    assert len(rows) == 2  # not the variant, and not SAC, whose speed and size are unknown
    assert HOSTILE in Page(text).texts
    assert "Speed and size" not in page([run("gym/Hopper-v4", 0, 1.0, "SAC", seconds=None)])


def test_unfinished_runs_are_not_compared_with_the_paper():
    text = page([run("dmc/cheetah-run", 0, 600.0, steps=100_000)])
    assert "No run has reached step 500,000 yet, so nothing here is compared with the paper." in text
    assert "(paper)" not in text
    assert "MR.Q in the paper" not in " ".join(Page(text).texts)
    assert "No suite is complete yet. MR.Q has completed: Gym" in text


def test_hostile_names_are_escaped():
    text = page([run(f"gym/{HOSTILE}", 0, 1.0, HOSTILE, 1_000, (("device", HOSTILE),))])
    found = Page(text)
    assert [tag for tag, _ in found.elements].count("script") == 2
    assert "img" not in {tag for tag, _ in found.elements}
    assert not any(name.startswith("on") for _, attributes in found.elements for name in attributes)
    (data,) = json.loads(found.scripts[0]).values()
    assert data["curves"][0]["name"].startswith(HOSTILE)
    assert HOSTILE in found.texts


@pytest.mark.parametrize(
    ("difference", "expected"),
    [(-1.17, "bad3"), (-0.5, "bad3"), (-0.41, "bad2"), (-0.19, "bad1"), (-0.01, "bad1"), (-0.009, ""), (0.0, ""),
     (0.18, "good1"), (0.2, "good2"), (0.7, "good3")],
)  # fmt: skip
def test_differences_have_the_papers_colours(difference, expected):
    assert shade(difference) == expected


def test_the_design_study_is_shaded():
    records = [run("gym/Hopper-v4", 0, 3226.0), run("gym/Hopper-v4", 0, 18.791, "revert")]
    text = page(records)
    assert '<td class="bad3"><b>-1.00</b> <small>[-1.00, -1.00], 1 of 5 tasks</small></td>' in text
    assert '<td class="bad3"><b>-1.47</b> <small>[-1.54, -1.39]</small></td>' in text
