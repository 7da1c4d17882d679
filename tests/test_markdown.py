"""Renders Markdown as a reader's program does, and compares what it shows with the text that was escaped."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from mrq.markdown import escaped, markdown_table
from mrq.printable import condensed
from tests.hostile import HOSTILE

RENDERER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
# What GitHub and others make links or formulas of, although CommonMark does not.
EXTENSIONS = re.compile(r"(?i)://|www\.|\w\.[a-z]{2}|@\w|(?<!\\)\$")
PIECES = [
    *"[]()!<>*_~`|\\&#$@:/.;\"'-+=^{} \n1x",
    *("**", "__", "~~", "```", "](http://", "www.", "<b>", "&lt;", "&#", "\\|", ".com"),
]


def shown(text):
    """Returns the text that inline Markdown shows; anything but text, such as a link, fails."""
    assert not EXTENSIONS.search(text)
    (opening, inline, closing) = RENDERER.parse(f"begins {text}")
    assert (opening.type, closing.type) == ("paragraph_open", "paragraph_close")
    assert {child.type for child in inline.children} == {"text"}
    content = "".join(child.content for child in inline.children)
    return content.removeprefix("begins").strip().replace("\N{WORD JOINER}", "")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_shown_as_it_is(name):
    assert shown(escaped(HOSTILE[name])) == condensed(HOSTILE[name])


@given(st.lists(st.sampled_from(PIECES) | st.characters(), max_size=12).map("".join))
def test_any_text_is_shown_as_it_is(text):
    assert shown(escaped(text)) == condensed(text)


def test_names_and_numbers_stay_readable():
    for text in (
        "MR.Q with batch_size=16",
        "gym/Hopper-v4",
        "stable_baselines3 2.9.2+cpu",
        "-5 [-1,000, 3] (2)",
        "A & B",
    ):
        assert escaped(text) == text


@pytest.mark.parametrize("name", HOSTILE)
def test_a_table_keeps_its_shape(name):
    text = HOSTILE[name]
    tokens = RENDERER.parse(markdown_table(["task", text], [[text, "1 [1, 2] (3)"]], [["Mean", text]]))
    assert sum(token.type in ("th_open", "td_open") for token in tokens) == 6
    inlines = [token for token in tokens if token.type == "inline"]
    assert [child.type for child in inlines[4].children] == ["text", "strong_open", "text", "strong_close", "text"]
    plain = [token for token in inlines if token is not inlines[4]]
    assert {child.type for token in plain for child in token.children} == {"text"}
