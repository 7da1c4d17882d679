"""What Markdown and the page say in the same words."""

from collections.abc import Callable

from mrq.benchmark.variants import steps_of
from mrq.environments.tasks import PROTOCOLS
from mrq.report.ran import Missing, Ran
from mrq.report.tables import Alone, SuiteTable

NONE = "-"
INTERVALS = "Intervals are 95% stratified bootstraps; in parentheses the number of seeds."
ALONE = "Runs that have not come to the last step of their suite, and tasks that the paper does not have."
RAN = (
    "Seeds are those of a task. Steps and hours are of all runs together, steps/s of one run; runs that train in one "
    "process each count its hours."
)
RAN_COLUMNS = ("tasks", "runs", "seeds", "steps", "hours", "steps/s")
MISSING_COLUMNS = ("complete", "unfinished", "not begun")


def covered(table: SuiteTable) -> str:
    has = "" if len(table.covered) == table.tasks else f", of which we have {len(table.covered)}"
    return f"Aggregates are of the suite's {table.tasks} tasks{has}."


def digits(table: SuiteTable) -> int:
    """Of its aggregates."""
    return 0 if table.suite.startswith("dmc") else 2


def study() -> str:
    steps = ", ".join(f"{suite} {steps_of(suite):,}" for suite in PROTOCOLS)
    return f"Differences in mean score from MR.Q, after as many steps as in the paper ({steps})."


def steps(found: Alone, written: Callable[[int], str] = "{:,}".format) -> str:
    return written(found.step) if found.steps is None else f"{written(found.step)} of {written(found.steps)}"


def ran(found: Ran) -> list[str]:
    fewest, most = found.seeds
    return [
        str(found.tasks),
        f"{found.runs:,}",
        str(most) if fewest == most else f"{fewest} to {most}",
        f"{found.steps:,}",
        NONE if found.hours is None else f"{found.hours:,.1f}",
        NONE if found.speed is None else f"{found.speed:,.{0 if found.speed >= 10 else 1}f}",
    ]


def missing(found: Missing) -> list[str]:
    complete = found.tasks - len(found.unfinished) - len(found.absent)
    unfinished, absent = (", ".join(_bare(task) for task in tasks) for tasks in (found.unfinished, found.absent))
    everything = len(found.absent) == found.tasks
    return [f"{complete} of {found.tasks}", unfinished or NONE, "all" if everything else absent or NONE]


def _bare(task: str) -> str:
    return task.partition("/")[2]
