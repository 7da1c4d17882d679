"""What came of a trial, and the table of all."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """Ways in which a trial may end."""

    EQUAL = "equal"  # the result is that of an undisturbed run, to the last bit
    NOTICED = "noticed"  # refused or repaired with a sentence, and nothing is lost
    ACCEPTED = "accepted"  # input that can be worked with
    WRONG = "wrong"


class Wrong(Exception):
    """Something that must not happen."""


@dataclass(frozen=True)
class Result:
    """How one trial, or one of its parts, ended."""

    kind: str  # a row of the table
    outcome: Outcome
    what: str = ""  # was done, and came of it; of those that are wrong


def table(results: Iterable[Result]) -> str:
    """Returns the number of results by kind and outcome."""
    counts = Counter((result.kind, result.outcome) for result in results)
    totals = Counter({("all", outcome): sum(n for (_, o), n in counts.items() if o == outcome) for outcome in Outcome})
    kinds = sorted({kind for kind, _ in counts})
    width = max(map(len, [*kinds, "all"]))
    lines = [f"{'':{width}}" + "".join(f"{outcome:>10}" for outcome in Outcome)]
    for kind in [*kinds, "all"]:
        numbers = totals if kind == "all" else counts
        lines.append(f"{kind:{width}}" + "".join(f"{numbers[kind, outcome] or '-':>10}" for outcome in Outcome))
    return "\n".join(lines)
