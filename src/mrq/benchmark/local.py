"""The local engine: trains a matrix on this machine, one fleet after the other."""

from collections.abc import Sequence
from functools import partial

from mrq.benchmark.fleet import train_in_child
from mrq.benchmark.matrix import Job
from mrq.benchmark.view import View
from mrq.training.interruption import Interruption


def run_fleets(fleets: Sequence[Sequence[Job]], view: View) -> tuple[dict[Job, str], int | None]:
    """Trains all fleets; returns why runs did not finish, and the signal with which the user interrupted, if any."""
    failed: dict[Job, str] = {}
    with Interruption() as interrupted:
        for fleet in fleets:
            reasons = train_in_child(fleet, partial(view.show, fleet), interrupted)
            if interrupted():
                break
            failed |= reasons
            view.end(fleet, reasons)
    return failed, interrupted.number
