"""What a matrix will cost: hours of one device, by the speeds in benchmarks/speed.md."""

from collections.abc import Sequence

from mrq.benchmark.matrix import Job, State, state_of
from mrq.environments.tasks import suite_of

# Environment steps a second, of all agents of a fleet together.
SPEEDS: dict[str, dict[str, float]] = {
    "cuda": {"gym": 3_850, "dmc": 2_300, "dmc-visual": 220, "atari": 355},  # one H200, 16 cores
    "cpu": {"gym": 7, "dmc": 7, "dmc-visual": 1.5, "atari": 1.5},  # two cores
}
MACHINES = {"cuda": "an H200 with 16 cores", "cpu": "two CPU cores"}


def overview(jobs: Sequence[Job], device: str) -> list[list[str]]:
    """Rows for people: a suite and variant each, and all together."""
    rows = [["suite", "algorithm", "runs", *(state.value for state in State), "hours left"]]
    groups: dict[tuple[str, str], list[Job]] = {}
    for job in jobs:
        groups.setdefault((suite_of(job.agent.task), job.variant), []).append(job)
    hours = 0.0
    for (suite, variant), own in groups.items():
        states = [state_of(job) for job in own]
        left = sum(
            job.settings.total_steps - step for job, (state, step, _) in zip(own, states, strict=True) if state.due
        )
        known = own[0].baseline is None
        cost = left / SPEEDS[device][suite] / 3_600
        hours += cost if known else 0
        counts = [str(sum(found is state for found, _, _ in states)) for state in State]
        rows.append([suite, variant, str(len(own)), *counts, f"{cost:,.1f}" if known else "unknown"])
    rows.append(["all", "", str(len(jobs)), *[""] * len(State), f"{hours:,.1f}"])
    return rows
