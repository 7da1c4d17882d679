"""What ran, with what and on what, and what is still missing."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mrq.benchmark.variants import DEFAULT, VARIANTS
from mrq.environments.tasks import PROTOCOLS, names_in
from mrq.report.records import Record, Setup
from mrq.report.suites import OTHER, section_of
from mrq.report.tables import algorithms, goal_of


@dataclass(frozen=True)
class Ran:
    """An algorithm's runs in a suite."""

    algorithm: str
    suite: str
    tasks: int
    runs: int
    seeds: tuple[int, int]  # the fewest and the most of a task
    steps: int  # of all runs together
    hours: float | None  # of training, of all runs together; None where a run's are unknown
    speed: float | None  # steps a second of one run, on average
    parameters: tuple[int, int] | None  # the fewest and the most that a run learns; None where no run says
    machines: list[str]
    setups: int  # different ones


@dataclass(frozen=True)
class Missing:
    """An algorithm's tasks of a suite without a complete run."""

    algorithm: str
    suite: str
    unfinished: list[str]  # those with runs that have not come to the last step
    absent: list[str]
    tasks: int  # that the suite has


def what_ran(records: Sequence[Record]) -> list[Ran]:
    found = []
    for algorithm in algorithms(records):
        for suite in (*PROTOCOLS, OTHER):
            own = [r for r in records if r.algorithm == algorithm and section_of(r.task) == suite]
            if own:
                seeds = Counter(record.task for record in own).values()
                steps = sum(int(record.steps[-1]) for record in own)
                timed = all(len(record.seconds) for record in own)
                seconds = sum(float(record.seconds[-1]) for record in own) if timed else 0.0
                hours, speed = (seconds / 3_600, steps / seconds) if seconds > 0 else (None, None)
                parameters = {record.parameters for record in own if record.parameters}
                found.append(
                    Ran(
                        algorithm,
                        suite,
                        len(seeds),
                        len(own),
                        (min(seeds), max(seeds)),
                        steps,
                        hours,
                        speed,
                        (min(parameters), max(parameters)) if parameters else None,
                        sorted({record.machine for record in own if record.machine}),
                        len({record.setup for record in own}),
                    )
                )
    return found


def measured(ran: Sequence[Ran]) -> list[Ran]:
    """Those whose speed or size is known, without the design study's variants."""
    return [one for one in ran if one.algorithm not in VARIANTS and (one.speed or one.parameters)]


def setups(records: Sequence[Record]) -> list[tuple[Setup, int]]:
    """The different ones, and how many runs have each; the most common first."""
    return Counter(record.setup for record in records if record.setup).most_common()


def what_is_missing(records: Sequence[Record]) -> list[Missing]:
    """Of MR.Q in every suite, and of all else in the suites that it was run in."""
    found = []
    for algorithm in dict.fromkeys([DEFAULT, *algorithms(records)]):
        own = [record for record in records if record.algorithm == algorithm]
        begun = {record.task for record in own}
        complete = {r.task for r in own if (goal := goal_of(algorithm, r.task)) is not None and r.at(goal) is not None}
        for suite in PROTOCOLS:
            tasks = names_in(suite)
            left = [task for task in tasks if task not in complete]
            if left and (algorithm == DEFAULT or begun & set(tasks)):
                unfinished = [task for task in left if task in begun]
                absent = [task for task in left if task not in begun]
                found.append(Missing(algorithm, suite, unfinished, absent, len(tasks)))
    return found
