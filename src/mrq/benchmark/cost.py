"""What a matrix will cost: hours of one device, estimated from the speeds in benchmarks/speed.md."""

from collections.abc import Mapping, Sequence

from mrq.algorithms.algorithm import DEFAULT_PRESET
from mrq.algorithms.registry import default_algorithm
from mrq.benchmark.matrix import Job, RunState
from mrq.environments.tasks import suite_of

# Environment steps per second, of all agents of a fleet together. Only the default algorithm and preset were measured.
SPEEDS: dict[str, dict[str, float]] = {
    "cuda": {"gym": 3_600, "dmc": 2_600, "dmc-visual": 220, "atari": 320},  # one H200, 16 cores
    "cpu": {"gym": 7, "dmc": 7, "dmc-visual": 1.5, "atari": 1.5},  # two cores
}
MACHINES = {"cuda": "an H200 with 16 cores", "cpu": "two CPU cores"}


def overview(states: Mapping[Job, tuple[RunState, int]], device: str) -> list[list[str]]:
    """Returns the rows of a table: one per suite and label, and one for all; `states` has each run's state and step."""
    rows = [["suite", "algorithm", "runs", *(state.value for state in RunState), "hours left"]]
    groups: dict[tuple[str, str], list[Job]] = {}
    for job in states:
        groups.setdefault((suite_of(job.identity.task), job.label), []).append(job)
    costs = [_hours(group, states, SPEEDS[device][suite]) for (suite, _), group in groups.items()]
    for (place, group), cost in zip(groups.items(), costs, strict=True):
        rows.append([*place, *_counts(group, states), "unknown" if cost is None else f"{cost:,.1f}"])
    known = [cost for cost in costs if cost is not None]
    total = f"{sum(known):,.1f}" if known else "unknown"
    more = " and more" if known and None in costs else ""
    rows.append(["all", "", *_counts(list(states), states), total + more])
    return rows


def _hours(jobs: Sequence[Job], states: Mapping[Job, tuple[RunState, int]], speed: float) -> float | None:
    """Returns the hours that one algorithm's jobs still take; None if its speed was not measured."""
    left = sum(job.settings.total_steps - states[job][1] for job in jobs if states[job][0].due)
    algorithm = jobs[0].settings.algorithm
    preset, _ = algorithm.closest_preset(jobs[0].settings.hyperparameters)
    measured = algorithm is default_algorithm() and preset == DEFAULT_PRESET
    return left / speed / 3_600 if measured or not left else None


def _counts(jobs: Sequence[Job], states: Mapping[Job, tuple[RunState, int]]) -> list[str]:
    """Returns how many jobs there are, and how many are in each state."""
    return [str(len(jobs)), *(str(sum(states[job][0] is state for job in jobs)) for state in RunState)]
