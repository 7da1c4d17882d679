"""The matrix on this machine: one fleet after the other."""

from collections.abc import Sequence
from functools import partial

from mrq.benchmark.fleet import train_apart
from mrq.benchmark.matrix import Job
from mrq.benchmark.view import View
from mrq.training.interruption import Interruption


def run_fleets(fleets: Sequence[Sequence[Job]], view: View) -> tuple[dict[Job, str], bool]:
    """Runs them all; why those that did not finish did not, and whether it was interrupted."""
    failed: dict[Job, str] = {}
    with Interruption() as interrupted:
        for fleet in fleets:
            broken = train_apart(fleet, partial(view.show, fleet), interrupted)
            if interrupted():
                break
            failed |= broken
            view.end(fleet, broken)
    return failed, interrupted()
