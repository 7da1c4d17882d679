"""What Markdown and the page say in the same words."""

from collections.abc import Callable, Sequence

from mrq.benchmark.variants import steps_of
from mrq.environments.tasks import PROTOCOLS
from mrq.report.brevity import short
from mrq.report.ran import Missing, Ran
from mrq.report.scores import unit_of
from mrq.report.tables import Alone, SuiteTable

TITLE = "MR.Q: our runs beside the paper's"
NONE = "-"
INTERVALS = "Intervals are 95% stratified bootstraps; in parentheses the number of seeds."
ALONE_TITLE = "Compared with nothing"
ALONE = "Runs that have not come to the last step of their suite, and tasks that the paper does not have."
RAN = (
    "Seeds are those of a task. Steps and hours are of all runs together, steps/s and parameters of one run; runs that "
    "train in one process each count its hours."
)
RAN_COLUMNS = ("tasks", "runs", "seeds", "steps", "hours", "steps/s", "parameters")
MISSING_COLUMNS = ("complete", "unfinished", "not begun")


def covered(table: SuiteTable) -> str:
    has = "" if table.whole else f", of which we have {len(table.covered)}"
    return f"Aggregates are of the suite's {len(table.rows)} tasks{has}."


def digits(table: SuiteTable) -> int:
    """Of its aggregates."""
    return 2 if unit_of(table.suite) == 1 else 0


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
        speed(found),
        parameters(found),
    ]


def speed(found: Ran) -> str:
    return NONE if found.speed is None else f"{found.speed:,.{0 if found.speed >= 10 else 1}f}"


def parameters(found: Ran) -> str:
    """To three figures."""
    ends = dict.fromkeys(short(float(f"{count:.3g}")) for count in found.parameters or ())
    return " to ".join(ends) or NONE


def hardware(found: Sequence[Ran]) -> str:
    """What to know before hours are compared: whose are of which machine. Nothing where all are of one."""
    users: dict[str, dict[str, None]] = {}
    for one in found:
        for machine in one.machines:
            users.setdefault(machine, {})[one.algorithm] = None
    says = []
    if len(users) > 1:
        listed = "; ".join(f"{', '.join(names)} on {machine}" for machine, names in users.items())
        says.append(f"Not all ran on the same hardware: {listed}.")
    if mixed := dict.fromkeys(one.algorithm for one in found if one.setups > 1):
        says.append(
            f"Runs of {', '.join(mixed)} differ among themselves in hardware, versions or settings: see What ran."
        )
    return " ".join(says)


def missing(found: Missing) -> list[str]:
    complete = found.tasks - len(found.unfinished) - len(found.absent)
    unfinished, absent = (", ".join(bare(task) for task in tasks) for tasks in (found.unfinished, found.absent))
    everything = len(found.absent) == found.tasks
    return [f"{complete} of {found.tasks}", unfinished or NONE, "all" if everything else absent or NONE]


def bare(task: str) -> str:
    """Without its suite."""
    return task.partition("/")[2]
