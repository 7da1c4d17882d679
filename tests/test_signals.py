"""Ctrl-C and SIGTERM at any moment of a command: the status says which it was, and nobody sees a traceback."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.command_line import ENVIRONMENT, SMALL
from tests.waiting import soon

pytestmark = pytest.mark.slow


def handles(pid: int, number: int) -> bool:
    """Returns whether a process has a handler for a signal."""
    (mask,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt")]
    return bool(int(mask.split()[1], 16) >> (number - 1) & 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("arguments", "delays"),
    [
        (["--help"], (0, 0.05, 0.1, 0.2, 0.4, 0.8)),
        (["train", "Pendulum-v1", *SMALL, "--steps", 205, "--workers", 1], (0, 0.1, 0.3, 0.6, 1, 1.5, 2, 2.5, 3, 4)),
    ],
    ids=["help", "train"],
)
def test_a_signal_ends_a_command_without_a_traceback(tmp_path, arguments, delays, number):
    for delay in delays:
        folder = tmp_path / str(delay)
        folder.mkdir()
        process = subprocess.Popen(
            [sys.executable, "-m", "mrq", *map(str, arguments)],
            cwd=folder,
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert soon(lambda process=process: handles(process.pid, signal.SIGTERM)), "Python itself takes a moment"
        time.sleep(delay)
        if process.poll() is None:
            os.killpg(process.pid, number)  # as the terminal does, which also reaches processes that are just started
        _, err = process.communicate(timeout=60)
        assert process.returncode in (0, 128 + number), (delay, err)
        assert err in ("", "mrq: stopped.\n", "mrq: stopped at once; a checkpoint, if one was written, is intact.\n")


def test_a_signal_in_a_destructor_prints_nothing(tmp_path):
    script = """
import sys
from mrq import __main__, cli

class Raising:
    def __init__(self, error): self.error = error
    def __del__(self): raise self.error

def run():
    Raising(KeyboardInterrupt(2))
    print("between", file=sys.stderr)
    Raising(ValueError("told"))

cli.main = run
__main__.main()
"""
    ended = subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    before, _, after = ended.stderr.partition("between")
    assert (ended.returncode, before, "ValueError: told" in after) == (0, "", True)


@pytest.mark.parametrize("training", [False, True])
def test_a_lock_that_an_interrupt_left_locked_does_not_keep_a_command_from_ending(training):
    script = f"""
import os, signal, threading
from contextlib import nullcontext
from mrq import __main__, cli
from mrq.training.interruption import Interruption

lock = threading.Lock()

def run():
    with Interruption() if {training} else nullcontext():
        try:
            lock.acquire()
            for _ in range(1 + {training}):
                os.kill(os.getpid(), signal.SIGTERM)
            lock.release()
        finally:
            lock.acquire()

cli.main, __main__.SECONDS_TO_END = run, 1
__main__.main()
"""
    ended = subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (143, "")


@pytest.mark.parametrize(("number", "told"), [("ENOSPC", False), ("EIO", True)])
def test_a_full_disk_in_a_thread_prints_no_traceback(number, told):
    script = f"""
import errno, threading
from mrq import __main__, cli

def write(): raise OSError(errno.{number}, "cannot write")

def run():
    thread = threading.Thread(target=write)
    thread.start()
    thread.join()

cli.main = run
__main__.main()
"""
    ended = subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, told)
