"""Reports on run folders that somebody wrote to deceive or attack their reader."""

import csv
import io
import json
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest
from markdown_it import MarkdownIt

from mrq import cli
from mrq.interface import Identity
from mrq.printable import condensed
from mrq.report.figures import draw, write_figures
from mrq.report.html import html
from mrq.report.records import collect
from mrq.report.report import build
from mrq.report.text import as_csv, markdown
from mrq.report.writing import write
from mrq.training.listeners.learning_curve import draw_learning_curve
from mrq.training.run_creation import create_run_folder
from mrq.training.run_folder import CURVE, RunFolder
from mrq.training.settings import Settings
from tests.documents import document_of
from tests.hostile import HOSTILE
from tests.report.test_html import Page

RENDERER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
ELEMENTS = {
    *("html", "head", "meta", "title", "style", "script", "body", "header", "nav", "a", "main", "section", "h1", "h2"),
    *("h3", "p", "div", "figure", "table", "thead", "tbody", "tfoot", "tr", "th", "td", "b", "small", "dl", "dt", "dd"),
    *("svg", "g", "text", "line", "path", "rect", "circle"),
}
COLUMNS = ("suite", "row", "column")


def deceive(path, text):
    """Makes a run folder in which everything that is free to be text is this text."""
    settings = Settings(steps=10, device="cpu", precision="bf16").completed(["Pendulum-v1"])
    create_run_folder(path, Identity("Pendulum-v1", 0), settings, True, {}, 1).close()
    document = document_of(path)
    document |= {"task": encodable(text), "algorithm": text, "mrq": text}
    document["machine"] |= {"cpu": text, "gpus": [text], "platform": text}
    document["versions"] = dict.fromkeys(document["versions"], text)
    (path / "run.json").write_text(json.dumps(document))
    with (path / "evaluations.csv").open("a", newline="") as file:
        rows = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
        rows.writerow([encodable(text), 0, 0, -2.5, 1, 200, 10, 1.0])
        rows.writerow([encodable(text), 0, 10, -1.5, 1, 200, 10, 5.0])
    return path


def encodable(text):
    """Returns text without halves of characters, which evaluations.csv cannot hold."""
    return text.encode(errors="ignore").decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Returns a folder of such runs, and of another program's table with such a name."""
    root = tmp_path_factory.mktemp("hostile")
    for name, text in HOSTILE.items():
        deceive(root / name, text)
    rows = ["task,seed,step,return", *(f'"{HOSTILE[name]}",0,10,-7' for name in ("link", "cells", "formula"))]
    (root / "=1+1|[x](y)<b>\x1b[2J.csv").write_text("\n".join(rows))
    return root


@pytest.fixture(scope="module")
def report(folder):
    left_out = []
    records = collect([folder], left_out.append, folder.glob("*.csv"))
    assert (len(records), left_out) == (len(HOSTILE) + 3, [])
    return build(records)


def test_markdown_shows_everything_and_has_no_other_structure(report):
    text = markdown(report)
    assert text.replace("\n", "").isprintable()
    tokens = RENDERER.parse(text)
    headings = [title.content for before, title in pairwise(tokens) if before.type == "heading_open"]
    assert headings == ["MR.Q: our runs and the paper's results", "Not compared with the paper", "Runs", "Missing runs"]
    blocks = {token.type.removesuffix("_open").removesuffix("_close") for token in tokens}
    table = {"table", "thead", "tbody", "tr", "th", "td"}
    assert blocks == {"heading", "paragraph", "bullet_list", "list_item", "inline"} | table
    inlines = [token for token in tokens if token.type == "inline"]
    assert {child.type for token in inlines for child in token.children} == {"text"}
    contents = ["".join(child.content for child in token.children) for token in inlines]
    contents = [content.replace("\N{WORD JOINER}", "") for content in contents]
    for hostile in HOSTILE.values():
        cells = {condensed(f"gym/{encodable(hostile)}"), condensed(hostile)}  # of its task and algorithm
        assert cells <= set(contents)
        assert any(f"platform {condensed(hostile)}, precision bf16" in content for content in contents)
    rows = [token.type for token in tokens].count("tr_open")
    assert rows == (1 + len(HOSTILE) + 3) + (1 + len(HOSTILE) + 1) + (1 + 4)  # those of the three tables


def test_cells_of_the_csv_are_no_formulas(report):
    text = as_csv(report)
    assert text.replace("\n", "").isprintable()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == len(HOSTILE) + 3
    for row in rows:
        assert float(row["mean"]) in (-1.5, -7)  # numbers stay numbers
        assert all(not part.lstrip().startswith(tuple("=+-@\uff1d")) for key in COLUMNS for part in row[key].split(";"))
    columns = {row["column"] for row in rows}
    assert {"'=cmd|'/C calc'!A0", "'+1+1;'=1+1", "'-2+3", "'@SUM(1)", "'=1+1", "'\uff1d1+1"} <= columns


def test_the_page_and_the_figures_have_no_other_elements(report, tmp_path):
    figures = draw(report)
    page = html(report, figures)
    assert page.replace("\n", "").isprintable()
    found = Page(page)
    assert {tag for tag, _ in found.elements} <= ELEMENTS
    assert [tag for tag, _ in found.elements].count("script") == 2
    assert not any(name.startswith("on") or name in ("src", "style") for _, own in found.elements for name in own)
    assert all(own["href"].startswith("#") for tag, own in found.elements if tag == "a")
    assert {condensed(text) for text in HOSTILE.values()} <= {condensed(text) for text in found.texts}
    (data,) = [json.loads(script) for script in found.scripts[:1]]
    assert all(curve["name"].isprintable() for figure in data.values() for curve in figure["curves"])
    write_figures(figures, tmp_path)
    for path in tmp_path.iterdir():
        tags = {element.tag.partition("}")[2] for element in ElementTree.parse(path).iter()}
        assert tags <= ELEMENTS


def test_halves_of_characters_can_be_written(report, tmp_path):
    for name, content in (("md", markdown(report)), ("csv", as_csv(report)), ("html", html(report, draw(report)))):
        write(tmp_path / f"report.{name}", content)
        assert (tmp_path / f"report.{name}").stat().st_size > 1_000


def test_a_printed_report_and_its_messages_are_printable(folder, tmp_path, capsys):
    broken = tmp_path / "x\nmrq: fine\x1b[2J"
    broken.mkdir()
    (broken / "run.json").write_text("{")
    cli.Report((str(folder), str(tmp_path))).run()
    message, *printed = capsys.readouterr().out.split("\n")
    assert message.startswith(f"left out: {tmp_path}/x mrq: fine\N{REPLACEMENT CHARACTER}[2J/run.json cannot be read")
    assert all(line.isprintable() for line in [message, *printed])
    assert printed[0] == "# MR.Q: our runs and the paper's results"
    assert sum(line.startswith("#") for line in printed) == 4


def test_the_picture_of_a_run_shows_its_name_as_it_is(tmp_path):
    path = deceive(tmp_path / "seed-0", HOSTILE["emphasis"] + HOSTILE["escape"])
    draw_learning_curve(RunFolder(path))  # a dollar sign does not begin a formula, which would have to be correct
    assert (path / CURVE).stat().st_size > 1_000
