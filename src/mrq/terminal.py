"""What the commands print, and where it goes. Whatever a name contains, a terminal only gets lines of plain text."""

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.text import Text

from mrq.printable import printable

LONGEST_LINE = 10_000  # characters; a stranger's run.json may hold longer names


def show(rows: Sequence[Sequence[str]]) -> None:
    """Prints a table in aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def say(line: str) -> None:
    """Prints a line, until nobody reads the output any more."""
    try:
        print(shown(line), flush=True)
    except BrokenPipeError:
        discard_output()


class Terminal(Console):
    """A console for lines and live views that continues silently when nobody reads it any more."""

    def __init__(self) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, soft_wrap=True)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(shown(text), **options)

    def on_broken_pipe(self) -> None:
        discard_output()


def discard_output() -> None:
    """Discards all further output. The program that read it has ended, but training must continue."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def refuse(sentence: str, status: int = 1) -> NoReturn:
    """Prints why a command failed, and ends it."""
    print(f"mrq: {shown(sentence)}", file=sys.stderr)
    sys.exit(status)


def interrupted_by(number: int) -> int:
    """Returns the exit status that shells use for a command that a signal ended: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + number


def shown(line: str) -> str:
    """Returns a line as it is printed: with short paths, no control characters or line breaks, and not without end."""
    text = printable(with_short_paths(line[:LONGEST_LINE]))
    return text if len(line) <= LONGEST_LINE else f"{text}…"


def with_short_paths(line: str) -> str:
    """Returns a line with its paths, but not its addresses, relative to the folder where the command started."""
    return line if started_in() is None else re.sub(rf"(?<!/){re.escape(str(started_in()))}/", "", line)


@cache
def started_in() -> Path | None:
    """Returns the working directory at the first call, or None if it no longer exists."""
    with suppress(OSError):
        return Path.cwd()
    return None
