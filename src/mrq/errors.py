"""What a user is told when something cannot go on."""

import csv

# What reading a file may raise that is not as it was written.
DAMAGE = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError),
    csv.Error,
)


class MRQError(Exception):
    """One clear sentence that says what is wrong and what to do. The command line prints it without a traceback."""


def one_line(error: BaseException) -> str:
    """What another's error says, to be part of a sentence."""
    try:
        text = str(error)
    except Exception:  # it cannot even say what is wrong
        text = ""
    printable = "".join(c if c.isprintable() else " " for c in text)  # what is not may command a terminal
    return " ".join(f"{type(error).__name__}: {printable}".split()).rstrip(".:")
