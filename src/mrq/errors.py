"""Errors that are shown to users."""

import csv

from mrq.printable import condensed

# What reading a damaged file may raise.
DAMAGE = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError),
    csv.Error,
)


class MRQError(Exception):
    """One clear sentence that says what is wrong and what to do. The command line prints it without a traceback."""


def one_line(error: BaseException) -> str:
    """Returns the message of an error from elsewhere in a form that fits into a sentence."""
    try:
        text = str(error)
    except Exception:  # the error's own __str__ may fail
        text = ""
    return condensed(f"{type(error).__name__}: {text}").rstrip(".:")
