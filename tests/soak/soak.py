"""Runs trials side by side until the time is over, and tells what came of them."""

import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random

from tests.soak import damages, disks, environments_at_fault, forgeries, inputs, kills
from tests.soak.commands import end_children, end_with_parent
from tests.soak.outcomes import Outcome, Result, Wrong, table

Trial = Callable[[Random, Path, Path, str | None], list[Result]]
# What is tried, and how often: the shares of all trials.
KINDS: dict[str, tuple[Trial, int]] = {
    "kills": (kills.trial, 12),
    "disks": (disks.trial, 3),
    "damages": (damages.trial, 36),
    "forgeries": (forgeries.trial, 8),
    "inputs": (inputs.trial, 45),
    "environments": (environments_at_fault.trial, 5),
}
TOLD_EVERY = 60.0  # seconds


@dataclass(frozen=True)
class Plan:
    """What to try, and for how long."""

    seed: int
    minutes: float
    trials: int | None = None  # none beyond so many
    first: int = 0
    kinds: Sequence[str] = tuple(KINDS)
    configuration: str | None = None
    lanes: int = len(os.sched_getaffinity(0))

    def kind(self, number: int) -> str:
        """Returns the kind of a trial."""
        rng = Random(f"{self.seed} {number}")
        return rng.choices(self.kinds, [KINDS[kind][1] for kind in self.kinds])[0]

    def again(self, number: int) -> str:
        """Returns the command that repeats a trial."""
        configuration = f" --configuration {self.configuration}" if self.configuration else ""
        return (
            f"python -m tests.soak --seed {self.seed} --kinds {self.kind(number)}{configuration} --first {number} "
            "--trials 1"
        )


def soak(plan: Plan) -> int:
    """Runs the plan; returns the exit status."""
    workspace = Path(tempfile.mkdtemp(prefix="mrq-soak-"))
    began, results, told = time.monotonic(), list[Result](), time.monotonic()
    lanes = [_Lane(plan, number, workspace, began + 60 * plan.minutes) for number in range(plan.lanes)]
    try:
        open_lanes = {lane.pipe: lane for lane in lanes}
        while open_lanes:
            for pipe in wait(list(open_lanes), 1.0):
                try:
                    found: list[Result] = pipe.recv()
                except EOFError:
                    del open_lanes[pipe]
                    continue
                results += found
                for result in found:
                    if result.outcome == Outcome.WRONG:
                        print(f"\nWRONG {result.kind}\n{result.what}", flush=True)
            if time.monotonic() - told > TOLD_EVERY:
                told = time.monotonic()
                print(f"\n{(told - began) / 60:.1f} minutes\n{table(results)}", flush=True)
    finally:
        for lane in lanes:
            lane.end()
    wrong = [result for result in results if result.outcome == Outcome.WRONG]
    print(f"\nseed {plan.seed}, {(time.monotonic() - began) / 60:.1f} minutes\n{table(results)}")
    for result in wrong:
        print(f"\nWRONG {result.kind}: {result.what.splitlines()[0]}")
    if wrong:
        print(f"\nfolders of these are in {workspace}")
    else:
        shutil.rmtree(workspace, ignore_errors=True)
    return 1 if wrong or not results else 0


class _Lane:
    """A process that runs one trial after the other, each of them in a folder of its own."""

    def __init__(self, plan: Plan, number: int, workspace: Path, deadline: float) -> None:
        self.pipe, far_end = Pipe(duplex=False)
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                end_with_parent()
                self.pipe.close()
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
                _run_trials(plan, number, workspace, deadline, far_end)
                status = 0
            finally:
                end_children()
                os._exit(status)
        far_end.close()

    def end(self) -> None:
        """Ends the process, with all that it runs."""
        if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            os.kill(self.pid, signal.SIGTERM)
            os.waitpid(self.pid, 0)


def _run_trials(plan: Plan, lane: int, workspace: Path, deadline: float, pipe: Connection) -> None:
    number = plan.first + lane
    while time.monotonic() < deadline and (plan.trials is None or number < plan.first + plan.trials):
        kind = plan.kind(number)
        place = workspace / f"{kind}-{number}"
        place.mkdir()
        try:
            results = KINDS[kind][0](Random(f"{plan.seed} {number} {kind}"), place, workspace, plan.configuration)
        except Wrong as wrong:
            results = [Result(kind, Outcome.WRONG, str(wrong))]
        except Exception:
            results = [Result(kind, Outcome.WRONG, f"the soak itself fails\n{traceback.format_exc()}")]
        wrong_ones = any(result.outcome == Outcome.WRONG for result in results)
        if not wrong_ones:
            shutil.rmtree(place, ignore_errors=True)
        results = [
            Result(r.kind, r.outcome, f"{plan.again(number)}  # {place}\n{r.what}") if r.what else r for r in results
        ]
        pipe.send(results)
        number += plan.lanes
