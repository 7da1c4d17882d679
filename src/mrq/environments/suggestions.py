"""Suggests names that a user may have meant by an unknown one."""

import difflib
import re
from collections.abc import Sequence

MOST = 3  # suggestions


def did_you_mean(name: str, *known: Sequence[str]) -> str:
    """Returns a question that suggests known names, or "" if none is similar. Earlier lists are preferred."""
    return same_name(name, *known) or similar_name(name, *known)


def same_name(name: str, *known: Sequence[str]) -> str:
    """Suggests names that differ only in case, separators, suite or version, from the first list that has any."""
    same = ([other for other in names if _plain(other) == _plain(name)] for names in known)
    return question(next(filter(None, same), []))


def similar_name(name: str, *known: Sequence[str]) -> str:
    """Suggests names with a similar spelling, from all lists."""
    by_lower_case = {other.lower(): other for names in known for other in names}
    near = difflib.get_close_matches(name.lower(), by_lower_case, MOST, cutoff=0.6)
    return question([by_lower_case[one] for one in near])


def question(names: Sequence[str]) -> str:
    """Returns a question that suggests names, or "" if there are none."""
    return f"did you mean {' or '.join(names[:MOST])}?" if names else ""


def _plain(name: str) -> str:
    name = re.split("[/:]", name.strip())[-1].lower().replace("_", "-")
    return re.sub(r"(noframeskip|deterministic)?-v\d+$", "", name)
