"""The columns of a report: one per algorithm, in a fixed order. The paper's columns are named after their source."""

from collections.abc import Iterable

from mrq.algorithms.registry import default_algorithm

MAIN = default_algorithm().title  # the main algorithm: the one that the paper is about
VARIANTS = tuple(default_algorithm().variants)  # the paper's design study, in its order
PAPER = " (paper)"


def paper(algorithm: str) -> str:
    """Returns the name of the column with the algorithm's results in the paper."""
    return f"{algorithm}{PAPER}"


def ordered(algorithms: Iterable[str]) -> list[str]:
    """Returns the paper's algorithm first, then its variants in the paper's order, then all others by name."""
    names, first = set(algorithms), [MAIN, *VARIANTS]
    return [name for name in first if name in names] + sorted(names.difference(first))


def without_variants(algorithms: Iterable[str]) -> list[str]:
    """Returns the algorithms that are not variants of the design study."""
    return [name for name in algorithms if name not in VARIANTS]


def place_of_paper(column: str, ours: Iterable[str]) -> int:
    """Returns where a column of the paper stands among others: those of algorithms that we ran first, in our order."""
    beside = [paper(name) for name in ordered({MAIN, *ours})]
    return beside.index(column) if column in beside else len(beside)
