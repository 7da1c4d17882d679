"""An inventory of the runs: how many there are, what they cost, on which hardware, and which are missing."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mrq.environments.tasks import PROTOCOLS, names_in
from mrq.report.columns import MAIN, VARIANTS, ordered
from mrq.report.records import Provenance, Record
from mrq.report.suites import OTHER, section_of
from mrq.report.tables import final_step


@dataclass(frozen=True)
class Group:
    """An algorithm's runs in a suite."""

    algorithm: str
    suite: str
    tasks: int
    runs: int
    seeds: tuple[int, int]  # the fewest and the most of a task
    steps: int  # of all runs together
    hours: float | None  # of training, of all runs together; None if unknown for a run
    speed: float | None  # steps per second of one run, on average
    parameters: tuple[int, int] | None  # the fewest and the most that a run learns; None if unknown
    machines: list[str]
    provenances: int  # how many different ones


@dataclass(frozen=True)
class Missing:
    """An algorithm's tasks of a suite without a complete run."""

    algorithm: str
    suite: str
    unfinished: list[str]  # those whose runs have not reached the final step
    absent: list[str]
    tasks: int  # of the suite


def groups(records: Sequence[Record]) -> list[Group]:
    """Returns the runs' numbers by algorithm and suite."""
    found = []
    for algorithm in ordered(record.algorithm for record in records):
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
                    Group(
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
                        len({record.provenance for record in own}),
                    )
                )
    return found


def measured(found: Sequence[Group]) -> list[Group]:
    """Returns the groups whose speed or size is known, without the design study's variants."""
    return [group for group in found if group.algorithm not in VARIANTS and (group.speed or group.parameters)]


def provenances(records: Sequence[Record]) -> list[tuple[Provenance, int]]:
    """Returns the different provenances and how many runs have each; the most common first."""
    return Counter(record.provenance for record in records if record.provenance).most_common()


def missing(records: Sequence[Record]) -> list[Missing]:
    """Returns the missing runs: the main algorithm's in every suite, others' in the suites that they were run in."""
    found = []
    for algorithm in dict.fromkeys([MAIN, *ordered(record.algorithm for record in records)]):
        own = [record for record in records if record.algorithm == algorithm]
        started = {record.task for record in own}
        complete = {
            r.task for r in own if (step := final_step(algorithm, r.task)) is not None and r.at(step) is not None
        }
        for suite in PROTOCOLS:
            tasks = names_in(suite)
            left = [task for task in tasks if task not in complete]
            if left and (algorithm == MAIN or started & set(tasks)):
                unfinished = [task for task in left if task in started]
                absent = [task for task in left if task not in started]
                found.append(Missing(algorithm, suite, unfinished, absent, len(tasks)))
    return found
