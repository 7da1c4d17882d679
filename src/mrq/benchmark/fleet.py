"""What happens to a fleet on whichever machine it trains: a process of its own, which may fail alone."""

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from mrq.baselines.training import train_baseline
from mrq.benchmark.matrix import Job, State, state_of
from mrq.environments.children import how_it_ended, without_main
from mrq.errors import MRQError, one_line
from mrq.training.progress import Progress, Watch
from mrq.training.run_folder import occupied
from mrq.training.runs import resume, start

LOOKING_UP = 0.5  # seconds between two looks whether to stop


def train_apart(
    fleet: Sequence[Job], show: Callable[[Progress], None], interrupted: Callable[[], bool]
) -> dict[Job, str]:
    """Trains it, until it is finished or interrupted; why those that did not finish did not."""
    said = _run(fleet, show, interrupted)
    failed = {}
    for job in fleet:
        state, step, why = state_of(job)
        if state is not State.FINISHED:
            own = [line for line in said if job.agent.name in line]
            told = (own or said or [f"it broke off at step {step:,}."])[-1]
            failed[job] = why or told.removeprefix(f"{job.agent.name}: ")
    return failed


def _run(fleet: Sequence[Job], show: Callable[[Progress], None], interrupted: Callable[[], bool]) -> list[str]:
    """What was said on the way."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=_process, args=(there, list(fleet)))
    with without_main():
        process.start()
    there.close()
    said: list[str] = []
    asked = False
    try:
        while True:
            if not asked and interrupted():
                process.terminate()  # it saves everything first
                asked = True
            if here.poll(LOOKING_UP):
                message = here.recv()
                if isinstance(message, Progress):
                    show(message)
                else:
                    said.append(message)
    except EOFError:
        process.join()
    finally:
        process.kill()  # a second Ctrl-C waits for nothing
        process.join()
    if process.exitcode and process.exitcode < 0:
        said.append(f"{how_it_ended(process)}.")
    return said


def _process(connection: "Connection[Any, Any]", fleet: Sequence[Job]) -> None:
    """In the process of its own, which hears from its parent alone when to stop."""
    os.setsid()
    threading.Thread(target=_stop_without_parent, daemon=True).start()

    def tell(message: Progress | str) -> None:
        with suppress(OSError):  # the parent is gone
            connection.send(message)

    try:
        train(fleet, tell)
    except MRQError as error:
        tell(str(error))
        raise SystemExit(1) from None
    except Exception as error:
        traceback.print_exc()
        tell(one_line(error))
        raise SystemExit(1) from None


def train(fleet: Sequence[Job], tell: Watch) -> None:
    """What is left of it: a worker before this one may have begun some of its runs, or finished them."""
    due = [job for job in fleet if state_of(job)[0].due]
    begun, new = ([job for job in due if occupied(job.path) is there] for there in (True, False))
    settings, root = fleet[0].settings, fleet[0].root
    if fleet[0].baseline is not None:
        for job in due:
            train_baseline(fleet[0].baseline, job.agent, settings, root, tell)
        return
    if begun:
        try:
            if resume([job.path for job in begun], settings.total_steps, tell, tell, settings).interrupted:
                return
        except MRQError as error:
            for job in begun:
                tell(f"{job.agent.name}: {error}")
    if new:
        start([job.agent for job in new], settings, root, tell, tell)


def _stop_without_parent() -> None:
    """As if it had asked to: what was learned is saved."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
