"""Child processes: how they are started with a pipe, watched and ended."""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import resource_tracker
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Pipe: TypeAlias = "Connection[Any, Any]"

CLOSING_SECONDS = 2.0  # that a child gets to end by itself
LIVENESS_SECONDS = 1.0  # between two checks that a child lives: a process that it forked may keep its pipe open
SIGNALS = (signal.SIGINT, signal.SIGTERM)  # that ask a program to stop
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
SAFE_PATH = "PYTHONSAFEPATH"  # keeps a Python that is started from looking for modules in the current folder
PR_SET_PDEATHSIG = 1  # of prctl, in Linux


class Child:
    """A process started by this one, and a pipe to it. When the process ends, so does the pipe.

    The process calls `target(pipe, *arguments)`. It does not run the user's main module, and a Ctrl-C at the terminal
    does not reach it. On Linux a stopped process continues when its parent ends. A child is dependent or independent:

    - A dependent child computes with one thread and starts no children of its own. It ignores SIGINT and SIGTERM,
      because its parent handles them, and it ends soon after its parent.
    - An independent child uses all cores and may start children. It handles SIGTERM itself, and receives one when its
      parent ends.
    """

    def __init__(
        self,
        target: Callable[..., None],
        arguments: tuple[Any, ...],
        *,
        independent: bool = False,
        duplex: bool = False,  # otherwise, only the child sends
        name: str | None = None,
    ) -> None:
        self.connection, far_end = multiprocessing.Pipe(duplex)
        self.process = multiprocessing.get_context("spawn").Process(
            target=_run_child,
            args=(_Beginning(independent), independent, target, far_end, arguments),
            name=name,
            daemon=not independent,
        )
        with _without_main(), _inherited({} if independent else ONE_THREAD):
            self.process.start()
        far_end.close()  # now the child alone holds it, so the pipe ends with the child

    def receive(self, timeout: float) -> Any:
        """Returns the next message; raises TimeoutError if none arrives in time, EOFError if the child has ended."""
        deadline = time.monotonic() + timeout
        while not self.connection.poll(max(0.0, min(deadline - time.monotonic(), LIVENESS_SECONDS))):
            if self.how_it_ended() and not self.connection.poll():
                raise EOFError
            if time.monotonic() >= deadline:
                raise TimeoutError
        try:
            return self.connection.recv()
        except OSError as error:  # it ended in the middle of a message
            raise EOFError from error

    def how_it_ended(self, timeout: float = 0.0) -> str | None:
        """Returns how the process ended, as a part of a sentence; None if it still runs after `timeout` seconds."""
        self.process.join(timeout)
        code = self.process.exitcode
        if code is None:
            return None
        return "its process " + (f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}")

    def end(self, timeout: float = 0.0) -> None:
        """Kills the process unless it ends by itself within `timeout` seconds, and closes the pipe."""
        self.process.join(timeout)
        self.process.kill()
        self.process.join()
        self.connection.close()


@contextmanager
def environment_variables(values: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables of this process, and restores them afterwards."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def cores() -> int:
    """Returns how many cores this process may use; macOS only tells how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def only_installed_modules() -> AbstractContextManager[None]:
    """Keeps a Python that is started meanwhile from importing what happens to lie in the current folder."""
    return environment_variables({SAFE_PATH: "1"})


@contextmanager
def _without_main() -> Iterator[None]:
    """Keeps a process that is started meanwhile from running the user's main module again.

    If that has no `if __name__ == "__main__"`, it would train again; if it has one, it would still import PyTorch.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _inherited(variables: Mapping[str, str]) -> Iterator[None]:
    """Gives a process that is started meanwhile environment variables, and blocks SIGNALS until it handles them.

    Until it gets our `sys.path`, it would also import what happens to lie in the current folder.
    """
    with environment_variables({**variables, SAFE_PATH: "1"}):
        resource_tracker.ensure_running()  # otherwise the first start would do it, and unblock the signals
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class _Beginning:
    """Calls `_begin` when the child unpickles it: before what follows it is unpickled and imports its modules."""

    def __init__(self, independent: bool) -> None:
        self._arguments = (independent, os.getpid(), os.environ.get(SAFE_PATH))

    def __reduce__(self) -> tuple[Callable[..., None], tuple[Any, ...]]:
        return _begin, self._arguments


def _begin(independent: bool, parent: int, safe_path: str | None) -> None:
    """Runs in the child, first of all."""
    _continue_when_parent_ends(parent)
    os.setsid()  # so that a Ctrl-C at the terminal reaches neither this process nor the programs it starts
    if independent:
        _forget_interrupts()
    else:
        _ignore_signals()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    if safe_path is None:  # the programs that an environment starts may look for modules where they like
        del os.environ[SAFE_PATH]


def _continue_when_parent_ends(parent: int) -> None:
    """Lets the parent's end continue this process if it is stopped; its own threads then end it.

    The end of the parent's thread that started this process continues it as well, which does no harm.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGCONT)
        if os.getppid() != parent:  # it has ended already, so no signal will come
            os._exit(1)


def _forget_interrupts() -> None:
    """Drops a Ctrl-C at the terminal that came before `os.setsid`; the parent has had it too."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGINT, handler)


def _ignore_signals() -> None:
    """Gives SIGNALS handlers that do nothing.

    Blocked or ignored signals would be inherited by the programs that an environment starts and ends with a signal.
    """
    for number in SIGNALS:
        signal.signal(number, lambda *_: None)
        signal.siginterrupt(number, False)  # an environment's library may not retry what a signal interrupts


def _run_child(_: None, independent: bool, target: Callable[..., None], pipe: Pipe, arguments: tuple[Any, ...]) -> None:
    """Runs in the child, after `_begin`."""
    threading.Thread(target=_end_with_parent, args=(independent,), daemon=True).start()
    try:
        target(pipe, *arguments)
    except KeyboardInterrupt:  # a second signal, or an environment that raises it; neither calls for a traceback
        raise SystemExit(1) from None


def _end_with_parent(independent: bool) -> None:
    """Waits in a thread until the parent has ended, then ends this process, whatever it is doing."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    if independent:
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        time.sleep(CLOSING_SECONDS)  # an idle child sees that its pipe has ended and closes its environments
        os._exit(1)
