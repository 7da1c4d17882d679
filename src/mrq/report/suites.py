"""The paper's names for its suites, and the units of their mean scores."""

from functools import cache
from typing import NamedTuple

from mrq.environments.tasks import PROTOCOLS, paper_tasks, suite_of

OTHER = "other tasks"


class Name(NamedTuple):
    """The title of a suite, and the unit of its mean scores."""

    title: str
    unit: str


NAMES = {
    "gym": Name("Gym locomotion", "TD3-normalised"),
    "dmc": Name("DMC proprioceptive", "return in 1,000s"),
    "dmc-visual": Name("DMC visual", "return in 1,000s"),
    "atari": Name("Atari", "human-normalised"),
}
assert NAMES.keys() == PROTOCOLS.keys()


def section_of(task: str) -> str:
    """Returns the suite that has this task in the paper, or OTHER if the paper does not have the task."""
    return suite_of(task) if task in _known() else OTHER


@cache
def _known() -> frozenset[str]:
    return frozenset(task.name for task in paper_tasks())
