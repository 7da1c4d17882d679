"""Runs the command line in a process forked from this one, which has imported everything, and sees it to its end.

The process that calls this must have no threads and no other children.
"""

import atexit
import ctypes
import faulthandler
import os
import resource
import select
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

LIMIT = 90.0  # seconds that a command may take
LINGER = 20.0  # seconds that processes may outlive the command that started them
MEMORY = 12 * 2**30  # bytes of address space
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    arguments: Sequence[str]
    status: int | None  # negative: the signal that ended it; None: it was ended because it took too long
    out: str
    err: str
    left: list[str]  # processes that it left running
    seconds: float

    @property
    def fault(self) -> str | None:
        """What no command may do, whatever it is given."""
        if self.status is None:
            return "hang"
        # A child that begins while its parent is killed says so itself, since Python reads what it is to do from it.
        if self.status != -signal.SIGKILL and "Traceback" in self.err + self.out:
            return "traceback"
        if self.left:
            return f"left running: {', '.join(self.left)}"
        if self.status < 0 and -self.status not in (signal.SIGKILL, signal.SIGTERM):
            return f"ended by signal {-self.status}"
        return None

    @property
    def refused(self) -> bool:
        """Whether it said in a sentence why it does not do what was asked."""
        lines = [line for line in self.err.splitlines() if line.startswith("mrq: ")]
        return self.fault is None and ((self.status == 1 and len(lines) == 1) or (self.status == 2 and self.err != ""))

    def __str__(self) -> str:
        command = " ".join(argument[:200] for argument in self.arguments)
        return f"mrq {command}\nstatus {self.status}\n{self.out[-2_000:]}\n{self.err[-3_000:]}"


@dataclass
class Command:
    """A command that runs."""

    arguments: Sequence[str]
    cwd: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    largest_file: int | None = None  # bytes

    def __post_init__(self) -> None:
        _control(PR_SET_CHILD_SUBREAPER, 1)  # what it leaves behind becomes our child
        self._output = [os.memfd_create(name) for name in ("out", "err")]
        self._began = time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._become()
        self._handle = os.pidfd_open(self.pid)

    def workers(self) -> list[int]:
        """Returns the processes that it started to step environments or to try them out."""
        return [pid for pid in children(self.pid) if "spawn_main" in _command_line(pid)]

    def has_ended(self, within: float) -> bool:
        """Waits until it has ended, at most so many seconds."""
        return bool(select.select([self._handle], [], [], within)[0])

    def send(self, number: int) -> None:
        if not self.has_ended(0):
            os.kill(self.pid, number)

    def end(self, limit: float = LIMIT) -> Ended:
        """Waits for its end, and for that of all that it started."""
        in_time = self.has_ended(limit)
        if not in_time:
            os.kill(self.pid, signal.SIGUSR1)  # so that it says where it hangs
            self.has_ended(1)
            os.kill(self.pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        seconds = time.monotonic() - self._began
        left = _see_off()
        os.close(self._handle)
        out, err = map(_content, self._output)
        return Ended(self.arguments, status if in_time else None, out, err, left if in_time else [], seconds)

    def end_unless_done(self, within: float) -> Ended:
        """Waits for its end; asks it to end after so many seconds, as a user would: once, and then again."""
        for pause in (within, 5.0):
            if self.has_ended(pause):
                break
            self.send(signal.SIGTERM)
        return self.end()

    def _become(self) -> NoReturn:
        """Turns the forked process into the command."""
        status = 1
        try:
            os.setsid()
            end_with_parent()
            for number in (signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number, descriptor in enumerate([os.open(os.devnull, os.O_RDONLY), *self._output]):
                os.dup2(descriptor, number)
            os.closerange(3, 100)
            faulthandler.register(signal.SIGUSR1, file=2)
            sys.stdin = os.fdopen(0, closefd=False)
            sys.stdout, sys.stderr = (os.fdopen(n, "w", closefd=False, errors="backslashreplace") for n in (1, 2))
            os.chdir(self.cwd)
            os.environ |= self.variables
            tempfile.tempdir = None
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            if self.largest_file is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (self.largest_file, self.largest_file))
            sys.argv = ["mrq", *self.arguments]
            status = _run()
        finally:
            os._exit(status)


def run(arguments: Sequence[str], cwd: Path, limit: float = LIMIT, **options: Mapping[str, str]) -> Ended:
    """Runs a command to its end."""
    return Command(arguments, cwd, **options).end(limit)  # type: ignore[arg-type]


def _run() -> int:
    """Runs the command line, and ends as Python would; returns the exit status."""
    from mrq.__main__ import main

    try:
        main()
        status = 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return status & 0xFF


def children(pid: int) -> list[int]:
    """Returns a process's children."""
    found: list[int] = []
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    except (FileNotFoundError, ProcessLookupError):
        return found
    return found


def end_with_parent() -> None:
    """Has this process killed when its parent ends."""
    _control(PR_SET_PDEATHSIG, signal.SIGKILL)


def _control(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def end_children() -> None:
    """Ends all that this process started."""
    while _reap():
        for pid in children(os.getpid()):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _see_off() -> list[str]:
    """Waits until this process has no children any more; ends, and returns, those that do not end by themselves."""
    deadline, left = time.monotonic() + LINGER, []
    while _reap():
        if time.monotonic() > deadline:
            for pid in children(os.getpid()):
                left.append(f"{pid} {_command_line(pid)[:100]}")
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
    return left


def _reap() -> bool:
    """Notices children that have ended; says whether there are others."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _content(descriptor: int) -> str:
    with open(descriptor, "rb") as file:
        file.seek(0)
        return file.read().decode(errors="replace")
