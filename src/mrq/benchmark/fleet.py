"""How a fleet trains, on whichever machine: in a process of its own, so that its failure stops nothing else."""

import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress

from mrq.benchmark.matrix import Job, RunState, state_of
from mrq.benchmark.progress import Progress, ProgressSender
from mrq.errors import MRQError, one_line
from mrq.processes import Child, Pipe
from mrq.training.listeners.listener import Listener
from mrq.training.run_creation import occupied
from mrq.training.runs import resume, start

POLL_SECONDS = 0.5  # between two checks whether to stop


def train_in_child(
    fleet: Sequence[Job], show: Callable[[Progress], None], interrupted: Callable[[], bool]
) -> dict[Job, str]:
    """Trains a fleet until it is finished or interrupted; returns why runs did not finish."""
    messages = _run(fleet, show, interrupted)
    failed = {}
    for job in fleet:
        state, step, problem = state_of(job)
        if state is not RunState.FINISHED:
            own = [message for message in messages if job.identity.name in message]
            last = (own or messages or [f"it stopped at step {step:,}."])[-1]
            failed[job] = problem or last.removeprefix(f"{job.identity.name}: ")
    return failed


def _run(fleet: Sequence[Job], show: Callable[[Progress], None], interrupted: Callable[[], bool]) -> list[str]:
    """Returns the messages that the child sent."""
    child = Child(_train_and_tell, (list(fleet),), independent=True)
    messages: list[str] = []
    asked = False
    try:
        while True:
            if not asked and interrupted():
                child.process.terminate()  # it saves everything first
                asked = True
            with suppress(TimeoutError):
                message = child.receive(POLL_SECONDS)
                if isinstance(message, Progress):
                    show(message)
                else:
                    messages.append(message)
    except EOFError:
        child.process.join()
    finally:
        child.end()  # at once, if a second Ctrl-C interrupts the saving
    if child.process.exitcode and child.process.exitcode < 0:
        messages.append(f"{child.how_it_ended()}.")
    return messages


def _train_and_tell(pipe: Pipe, fleet: Sequence[Job]) -> None:
    """Runs in the child."""

    def send(message: Progress | str) -> None:
        with suppress(OSError):  # the parent has ended
            pipe.send(message)

    try:
        train(fleet, ProgressSender(send))
    except MRQError as error:
        send(str(error))
        raise SystemExit(1) from None
    except Exception as error:
        traceback.print_exc()
        send(one_line(error))
        raise SystemExit(1) from None


def train(fleet: Sequence[Job], listener: Listener) -> None:
    """Trains those runs of a fleet that are not finished; an earlier worker may have begun some of them."""
    due = [job for job in fleet if state_of(job)[0].due]
    begun, new = ([job for job in due if occupied(job.path) is existing] for existing in (True, False))
    settings, root = fleet[0].settings, fleet[0].root
    if begun:
        try:
            paths, trust = [job.path for job in begun], fleet[0].trust
            to_the_end = {"stop_at_return": None, "patience": 0}
            resumed = resume(
                paths, settings.total_steps, listener, settings, trust, track=settings.track, changes=to_the_end
            )
            if resumed.interrupted:
                return
        except MRQError as error:
            for job in begun:
                listener.message(f"{job.identity.name}: {error}")
    if new:
        start([job.identity for job in new], settings, root, listener)
