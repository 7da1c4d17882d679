"""The matrix on this machine: one fleet after the other, each in a process of its own, which may fail alone."""

import multiprocessing
import os
import signal
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from mrq.baselines.training import train_baseline
from mrq.benchmark.matrix import Job, State, state_of
from mrq.benchmark.view import View
from mrq.environments.children import how_it_ended
from mrq.errors import MRQError, one_line
from mrq.training.interruption import Interruption
from mrq.training.progress import Progress
from mrq.training.runs import resume, start

LOOKING_UP = 0.5  # seconds between two looks whether to stop


def run_fleets(fleets: Sequence[Sequence[Job]], view: View) -> tuple[dict[Job, str], bool]:
    """Runs them all; why those that did not finish did not, and whether it was interrupted."""
    failed: dict[Job, str] = {}
    with Interruption() as interrupted:
        for fleet in fleets:
            said = _run(fleet, view, interrupted)
            if interrupted():
                break
            for job in fleet:
                state, step, why = state_of(job)
                if state is not State.FINISHED:
                    own = [line for line in said if job.agent.name in line]
                    failed[job] = why or (own or said or [f"it broke off at step {step:,}."])[-1]
            view.end(fleet, failed)
    return failed, interrupted()


def _run(fleet: Sequence[Job], view: View, interrupted: Interruption) -> list[str]:
    """What was said on the way."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=_train, args=(there, list(fleet)))
    process.start()
    there.close()
    said: list[str] = []
    asked = False
    try:
        while True:
            if interrupted() and not asked:
                process.terminate()  # it saves everything first
                asked = True
            if here.poll(LOOKING_UP):
                message = here.recv()
                if isinstance(message, Progress):
                    view.show(fleet, message)
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


def _train(connection: "Connection[Any, Any]", fleet: Sequence[Job]) -> None:
    """In the process of its own, which hears from its parent alone when to stop."""
    os.setsid()

    def tell(message: Progress | str) -> None:
        try:
            connection.send(message)
        except OSError:  # the parent is gone
            signal.raise_signal(signal.SIGTERM)

    try:
        if fleet[0].baseline is not None:
            train_baseline(fleet[0].baseline, fleet[0].agent, fleet[0].settings, fleet[0].root, tell)
        elif fleet[0].path.exists():
            resume([job.path for job in fleet], fleet[0].settings.total_steps, tell, tell)
        else:
            start([job.agent for job in fleet], fleet[0].settings, fleet[0].root, tell, tell)
    except MRQError as error:
        tell(str(error))
        raise SystemExit(1) from None
    except Exception as error:
        traceback.print_exc()
        tell(one_line(error))
        raise SystemExit(1) from None
