"""What the processes that hold environments inherit, and how they ended."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnProcess
from types import ModuleType

from mrq.environments.variables import variables

CLOSING_SECONDS = 2.0
LOOKING_UP = 1.0  # between two looks whether a process lives: what it forked may hold its pipe open beyond its end
MAKING_SECONDS = 300.0  # more than a step may take: packages are imported, levels built
SIGNALS = (signal.SIGINT, signal.SIGTERM)  # that ask a training to stop
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@contextmanager
def starting_a_child() -> Iterator[None]:
    """What a process started meanwhile inherits: one thread, no ear for Ctrl-C or a SIGTERM to all of us until it calls
    `begin_as_a_child`, and not the user's main module."""
    resource_tracker.ensure_running()  # the first start would otherwise do it, and unblock the signals
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        with variables(ONE_THREAD), without_main():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextmanager
def without_main() -> Iterator[None]:
    """A process spawned meanwhile does not run the user's main module again: without a guard it would train, and with
    one still import PyTorch."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def begin_as_a_child() -> None:
    """Makes this process deaf to what is meant for its parent, and lets it end with that."""
    _stay_deaf()
    _end_with_parent()


def _stay_deaf() -> None:
    """This process to Ctrl-C and SIGTERM, by handlers that do nothing: unlike blocked or ignored signals, these are not
    passed on to the programs that an environment starts and wants to end."""
    os.setsid()  # these would not survive a Ctrl-C at our terminal until everything is saved
    for number in SIGNALS:
        signal.signal(number, lambda *_: None)
        signal.siginterrupt(number, False)  # an environment's library may not try again what a signal broke off
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _end_with_parent() -> None:
    """This process, even in the middle of a step that never ends."""

    def wait_and_end() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        time.sleep(CLOSING_SECONDS)  # the end of its pipe lets an idle child go in good order
        os._exit(1)

    threading.Thread(target=wait_and_end, daemon=True).start()


def how_it_ended(process: SpawnProcess) -> str | None:
    """None while it has not."""
    code = process.exitcode
    if code is None:
        return None
    return "its process " + (f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}")
