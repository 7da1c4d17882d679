"""Text and tables as Markdown, in which text from outside has no structure."""

import re
from collections.abc import Sequence

from mrq.printable import condensed

# What structure in CommonMark and in GitHub's extensions needs. Text from outside never begins a block.
STRUCTURE = re.compile(
    r"""
    [\\`*~|$<@]          # code, emphasis, cells, formulas, HTML, users
    | (?<![^\W_])_       # emphasis, which does not begin inside a word
    | \[(?!-?[\d,.]+[ ]-?[\d,.]+\](?!\S))  # links, images and footnotes, but not intervals
    | &(?=[#\w])         # names and numbers of characters
    | /(?=/)             # addresses, which become links as they are: https://…, www.…
    | (?<=[Ww]{3})\.
    | \.(?=[^\W\d_]{2})  # many programs also make links of example.com
    """,
    re.VERBOSE,
)
# GitHub makes links of e-mail addresses and names of users even if the @ is escaped, but not if it is not followed by
# a letter: &#8288; has no width.
ENTITIES = {"<": "&lt;", "&": "&amp;", "@": "@&#8288;"}


def escaped(text: str) -> str:
    """Returns Markdown that shows this text on one line."""
    return STRUCTURE.sub(lambda found: ENTITIES.get(found[0], f"\\{found[0]}"), condensed(text))


def markdown_table(head: Sequence[str], body: Sequence[Sequence[str]], foot: Sequence[Sequence[str]] = ()) -> str:
    """Returns a table of escaped cells; the first cells of its foot are bold."""
    rows = [head, ["---"] * len(head), *body]
    lines = [
        *(map(escaped, row) for row in rows),
        *([f"**{escaped(name)}**", *map(escaped, row)] for name, *row in foot),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
