"""Checks how errors from elsewhere become part of a sentence."""

import pytest

from mrq.errors import one_line


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("no map"), "ValueError: no map"),
        (ValueError("no\n  map.\n"), "ValueError: no map"),
        (ValueError("no \x1b[31mmap"), "ValueError: no \N{REPLACEMENT CHARACTER}[31mmap"),
        (NotImplementedError(), "NotImplementedError"),
        (Mute(), "Mute"),
    ],
)
def test_an_error_becomes_part_of_a_sentence(error, words):
    assert one_line(error) == words
