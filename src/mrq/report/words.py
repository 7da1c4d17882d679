"""Sentences and headings that Markdown and the HTML page share."""

from collections.abc import Callable, Sequence

from mrq.environments.tasks import PROTOCOLS, study_steps
from mrq.report.columns import MAIN
from mrq.report.formatting import short
from mrq.report.inventory import Group, Missing
from mrq.report.scores import unit_of
from mrq.report.tables import SuiteTable, Uncompared

TITLE = f"{MAIN}: our runs and the paper's results"
NONE = "-"
INTERVALS = "Intervals are 95% stratified bootstraps. Numbers of seeds are in parentheses."
UNCOMPARED_TITLE = "Not compared with the paper"
UNCOMPARED = "These runs have not reached the last step of their suite, or the paper does not have their task."
RUNS_TITLE = "Runs"
RUNS = (
    "Seeds are per task. Steps and hours are totals over all runs; steps/s and parameters are those of one run. "
    "Runs that train in one process each count its hours."
)
RUNS_COLUMNS = ("tasks", "runs", "seeds", "steps", "hours", "steps/s", "parameters")
MISSING_TITLE = "Missing runs"
MISSING_COLUMNS = ("complete", "unfinished", "not started")


def covered(table: SuiteTable) -> str:
    """Says which tasks the aggregates of a table cover."""
    tasks = f"the suite's {len(table.rows)} tasks"
    return f"Aggregates cover {tasks}." if table.complete else f"Aggregates cover {len(table.covered)} of {tasks}."


def digits(table: SuiteTable) -> int:
    """Returns the number of decimals of a table's aggregates."""
    return 2 if unit_of(table.suite) == 1 else 0


def study() -> str:
    """Says what the differences of the design study are."""
    steps = ", ".join(f"{suite} {study_steps(suite):,}" for suite in PROTOCOLS)
    return f"Differences in mean score from {MAIN}, after the same number of steps as in the paper ({steps})."


def steps(found: Uncompared, written: Callable[[int], str] = "{:,}".format) -> str:
    """Returns the steps that runs have made, and how many they should make."""
    return written(found.step) if found.final_step is None else f"{written(found.step)} of {written(found.final_step)}"


def group(found: Group) -> list[str]:
    """Returns the cells of RUNS_COLUMNS."""
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


def speed(found: Group) -> str:
    """Returns the steps per second of one run."""
    return NONE if found.speed is None else f"{found.speed:,.{0 if found.speed >= 10 else 1}f}"


def parameters(found: Group) -> str:
    """Returns the number of parameters, or their range, to three digits."""
    ends = dict.fromkeys(short(float(f"{count:.3g}")) for count in found.parameters or ())
    return " to ".join(ends) or NONE


def hardware(found: Sequence[Group]) -> str:
    """Says which algorithm ran on which hardware if there are several, and whose runs differ from each other."""
    users: dict[str, dict[str, None]] = {}
    for one in found:
        for machine in one.machines:
            users.setdefault(machine, {})[one.algorithm] = None
    sentences = []
    if len(users) > 1:
        listed = "; ".join(f"{', '.join(names)} on {machine}" for machine, names in users.items())
        sentences.append(f"Not all ran on the same hardware: {listed}.")
    if mixed := dict.fromkeys(one.algorithm for one in found if one.provenances > 1):
        sentences.append(
            f"Runs of {', '.join(mixed)} differ among themselves in hardware, versions or settings: see {RUNS_TITLE}."
        )
    return " ".join(sentences)


def missing(found: Missing) -> list[str]:
    """Returns the cells of MISSING_COLUMNS."""
    complete = found.tasks - len(found.unfinished) - len(found.absent)
    unfinished, absent = (", ".join(bare(task) for task in tasks) for tasks in (found.unfinished, found.absent))
    everything = len(found.absent) == found.tasks
    return [f"{complete} of {found.tasks}", unfinished or NONE, "all" if everything else absent or NONE]


def bare(task: str) -> str:
    """Returns a task's name without its suite."""
    return task.partition("/")[2]
