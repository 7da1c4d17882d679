"""A report as one HTML file that needs no network and no other file."""

import json
from collections.abc import Sequence
from importlib.resources import files

from mrq.report import words
from mrq.report.figures import Figure
from mrq.report.formatting import counted
from mrq.report.markup import element, escaped
from mrq.report.report import Report
from mrq.report.sections import sections

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def html(report: Report, figures: Sequence[Figure]) -> str:
    """Returns the page."""
    parts = sections(report, figures)
    contents = element(
        "nav", *(element("a", escaped(p.title), href=f"#{p.anchor}") for p in parts), aria_label="Contents"
    )
    facts = f"{report.date:%-d %B %Y} · {counted(report.runs, 'run')} · mrq {report.version}"
    body = [
        element("header", element("h1", escaped(words.TITLE)), element("p", escaped(facts), class_="facts"), contents),
        element("main", *(p.body for p in parts)),
        element("script", _json({f.name: f.hover for f in figures if f.hover}), type="application/json", id="curves"),
        element("script", _file("page.js")),
    ]
    head = [
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        element("title", escaped(words.TITLE)),
        element("style", _file("page.css")),
    ]
    page = element(
        "html", element("head", "\n", "\n".join(head)), "\n", element("body", "\n", "\n".join(body)), lang="en"
    )
    return f"<!DOCTYPE html>\n{page}\n"


def _json(data: object) -> str:
    """Returns JSON that cannot end the script element around it."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _file(name: str) -> str:
    return files("mrq.report").joinpath("page", name).read_text(encoding="utf-8")
