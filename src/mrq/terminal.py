"""How the commands speak to the one who gave them."""

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NoReturn

from rich.console import Console


def show(rows: Sequence[Sequence[str]]) -> None:
    """In columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def say(line: str) -> None:
    try:
        print(shortly(line), flush=True)
    except BrokenPipeError:
        fall_silent()


class Lines(Console):
    """Lines, or a live view, for a person to read; as long as somebody does."""

    def __init__(self, quiet: bool = False) -> None:
        super().__init__(quiet=quiet, highlight=False, soft_wrap=True)

    def on_broken_pipe(self) -> None:
        fall_silent()


def fall_silent() -> None:
    """Whoever read what we print has gone. A training goes on."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def refuse(sentence: str, status: int = 1) -> NoReturn:
    print(f"mrq: {shortly(sentence)}", file=sys.stderr)
    sys.exit(status)


def shortly(line: str) -> str:
    """Paths in it, but not addresses, as seen from the folder that the command was given in."""
    return line if started_in() is None else re.sub(rf"(?<!/){re.escape(str(started_in()))}/", "", line)


@cache
def started_in() -> Path | None:
    with suppress(OSError):  # it may be gone
        return Path.cwd()
    return None
