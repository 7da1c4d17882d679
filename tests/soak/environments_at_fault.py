"""Environments that fail in every way: one sentence, and what was learned before is resumed without the fault."""

from pathlib import Path
from random import Random

from tests.soak.commands import Command
from tests.soak.configurations import MRQ, Configuration
from tests.soak.environments import FAULT, FAULTS
from tests.soak.kills import check_completed
from tests.soak.outcomes import Outcome, Result, Wrong
from tests.soak.results import evaluations

PATIENCE = 15.0  # seconds after which a command that goes on is asked to end
LARGE = ("large reward", "huge reward", "huge observation")  # may be taken as they are, and learned from


def trial(rng: Random, place: Path, workspace: Path, configuration: str | None) -> list[Result]:
    """Trains in an environment with a fault, then resumes it without."""
    workers = rng.choice([0, 1])
    c = Configuration(f"misbehaving-{workers}", "tests.soak.environments:Misbehaving", MRQ, 120, workers=workers)
    fault = f"{rng.choice(FAULTS)}:{rng.choice([1, 2, rng.randrange(3, 25), rng.randrange(25, 130)])}"
    ended = Command(c.train(), place, {FAULT: fault}).end_unless_done(PATIENCE)
    (folder,) = c.folders(place)
    label = f"environment: {fault.partition(':')[0]}"
    try:
        if ended.fault or ended.status not in (0, 1, 130, 143, -15) or (ended.status == 1 and not ended.refused):
            raise Wrong(ended.fault or "unexpected end")
        if not all(abs(float(row[3])) < 1e300 for row in evaluations(folder)):
            raise Wrong("a return that is NaN or infinite")
        if not label.endswith(LARGE):
            check_completed(c, place, workspace)
    except Wrong as wrong:
        return [Result(label, Outcome.WRONG, f"{fault}, workers {workers}: {wrong}\n{ended}")]
    return [Result(label, Outcome.ACCEPTED if ended.status == 0 else Outcome.NOTICED)]
