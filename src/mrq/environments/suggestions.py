"""Suggests names that a user may have meant by an unknown one."""

import difflib
import re
from collections.abc import Sequence

MOST = 3  # suggestions


def did_you_mean(name: str, *known: Sequence[str]) -> str:
    """Returns a question that suggests known names, or "" if none is similar. Earlier lists are preferred."""
    meant = _meant(name, known)
    return f"did you mean {' or '.join(meant)}?" if meant else ""


def _meant(name: str, known: Sequence[Sequence[str]]) -> list[str]:
    """Returns names that differ only in case, separators, suite or version, from the first list that has any.

    If no list has any, returns those of all lists with a similar spelling.
    """
    for names in known:
        if same := [other for other in names if _plain(other) == _plain(name)]:
            return same[:MOST]
    by_lower_case = {other.lower(): other for names in known for other in names}
    return [by_lower_case[near] for near in difflib.get_close_matches(name.lower(), by_lower_case, MOST, cutoff=0.6)]


def _plain(name: str) -> str:
    return re.sub(r"-v\d+$", "", name.strip().rpartition("/")[2].lower().replace("_", "-"))
