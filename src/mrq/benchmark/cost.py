"""What a matrix will cost: hours of one device, by the speeds in benchmarks/speed.md."""

from collections.abc import Mapping, Sequence

from mrq.benchmark.matrix import Job, State
from mrq.environments.tasks import suite_of

# Environment steps a second, of all agents of a fleet together.
SPEEDS: dict[str, dict[str, float]] = {
    "cuda": {"gym": 3_600, "dmc": 2_600, "dmc-visual": 220, "atari": 320},  # one H200, 16 cores
    "cpu": {"gym": 7, "dmc": 7, "dmc-visual": 1.5, "atari": 1.5},  # two cores
}
MACHINES = {"cuda": "an H200 with 16 cores", "cpu": "two CPU cores"}


def overview(states: Mapping[Job, tuple[State, int]], device: str) -> list[list[str]]:
    """Rows for people: a suite and variant each, and all together; of states, and the steps that runs have come to."""
    rows = [["suite", "algorithm", "runs", *(state.value for state in State), "hours left"]]
    groups: dict[tuple[str, str], list[Job]] = {}
    for job in states:
        groups.setdefault((suite_of(job.agent.task), job.variant), []).append(job)
    costs = [_hours(own, states, SPEEDS[device][suite]) for (suite, _), own in groups.items()]
    for (place, own), cost in zip(groups.items(), costs, strict=True):
        rows.append([*place, *_counts(own, states), "unknown" if cost is None else f"{cost:,.1f}"])
    known = [cost for cost in costs if cost is not None]
    total = f"{sum(known):,.1f}" if known else "unknown"
    more = " and more" if known and None in costs else ""
    rows.append(["all", "", *_counts(list(states), states), total + more])
    return rows


def _hours(jobs: Sequence[Job], states: Mapping[Job, tuple[State, int]], speed: float) -> float | None:
    """None where they are unknown: baselines were not measured."""
    left = sum(job.settings.total_steps - states[job][1] for job in jobs if states[job][0].due)
    return None if left and jobs[0].baseline is not None else left / speed / 3_600


def _counts(jobs: Sequence[Job], states: Mapping[Job, tuple[State, int]]) -> list[str]:
    """Of all, and by state."""
    return [str(len(jobs)), *(str(sum(states[job][0] is state for job in jobs)) for state in State)]
