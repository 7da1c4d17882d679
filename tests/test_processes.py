import os
import signal
import subprocess
import sys
import time

import pytest

from mrq.processes import Child, environment_variables
from tests.waiting import gone, soon


def answers(pipe, question):
    pipe.send((question, os.getpid(), os.environ.get("OMP_NUM_THREADS"), "torch" in sys.modules))
    pipe.send(os.environ.get("PYTHONSAFEPATH"))
    pipe.send("and more")


def doubles(pipe):
    while True:
        pipe.send(2 * pipe.recv())


def exits(pipe):
    os._exit(3)


def interrupts(pipe):
    raise KeyboardInterrupt


def sleeps(pipe):
    pipe.send("asleep")
    time.sleep(60)


def breaks_off_after_a_fork(pipe):
    if os.fork() == 0:
        time.sleep(20)  # and holds the pipe open
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


def stops_in_good_order(pipe):
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    pipe.send("ready")
    while not stopping:
        time.sleep(0.01)
    pipe.send("stopping")


def starts_a_child(pipe):
    child = Child(sleeps, ())
    child.receive(30)
    pipe.send(child.process.pid)
    child.end()


@pytest.fixture
def start():
    children = []

    def start(*arguments, **options):
        children.append(Child(*arguments, **options))
        return children[-1]

    yield start
    for child in children:
        child.end()


@pytest.mark.parametrize(("independent", "threads", "safe_path"), [(False, "1", "1"), (True, "7", None)])
def test_messages_arrive_and_the_pipe_ends_with_the_child(start, monkeypatch, independent, threads, safe_path):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    if safe_path:
        monkeypatch.setenv("PYTHONSAFEPATH", safe_path)
    child = start(answers, ("why",), independent=independent)
    assert child.receive(30) == ("why", child.process.pid, threads, False)
    assert child.receive(30) == safe_path, "what the child starts has the variable only if the user set it"
    assert child.receive(30) == "and more"
    with pytest.raises(EOFError):
        child.receive(30)
    assert child.how_it_ended(10) == "its process ended with exit code 0"
    assert os.environ["OMP_NUM_THREADS"] == "7"


def test_both_may_send(start):
    child = start(doubles, (), duplex=True, name="doubles")
    for number in (3, 4):
        child.connection.send(number)
        assert child.receive(30) == 2 * number
    assert child.process.name == "doubles"


@pytest.mark.parametrize(
    ("target", "words"), [(exits, "ended with exit code 3"), (breaks_off_after_a_fork, "was killed by signal 9")]
)
def test_how_a_child_ended_is_told(start, target, words):
    child = start(target, ())
    began = time.monotonic()
    with pytest.raises(EOFError):
        child.receive(30)
    assert time.monotonic() - began < 15
    assert soon(child.how_it_ended)
    assert child.how_it_ended() == f"its process {words}"


@pytest.mark.parametrize("independent", [False, True])
def test_a_child_that_is_interrupted_prints_no_traceback(start, capfd, independent):
    child = start(interrupts, (), independent=independent)
    assert child.how_it_ended(30) == "its process ended with exit code 1"
    assert capfd.readouterr().err == ""


def test_a_child_that_sends_nothing_is_not_waited_for_longer_than_asked(start):
    child = start(sleeps, ())
    assert child.receive(1e300) == "asleep"
    for timeout in (0, 0.2):
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            child.receive(timeout)
        assert timeout <= time.monotonic() - began < timeout + 0.9
    assert child.how_it_ended() is None
    child.end(0.1)
    assert child.how_it_ended() == "its process was killed by signal 9"


def test_a_dependent_child_ignores_the_signals_that_stop_an_independent_one(start):
    dependent = start(sleeps, ())
    independent = start(stops_in_good_order, (), independent=True)
    assert (dependent.receive(30), independent.receive(30)) == ("asleep", "ready")
    assert os.getpgrp() not in (os.getpgid(dependent.process.pid), os.getpgid(independent.process.pid))
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(dependent.process.pid, number)
    independent.process.terminate()
    assert independent.receive(10) == "stopping"
    assert independent.how_it_ended(10) == "its process ended with exit code 0"
    assert dependent.how_it_ended(0.3) is None


def test_an_independent_child_may_start_children(start):
    child = start(starts_a_child, (), independent=True)
    grandchild = child.receive(30)
    assert child.how_it_ended(10) == "its process ended with exit code 0"
    assert gone(grandchild)


SCRIPT = """
import sys, time
from mrq.processes import Child
from tests import test_processes

child = Child(getattr(test_processes, sys.argv[1]), (), independent=sys.argv[1] == "stops_in_good_order")
child.receive(30)
print(child.process.pid, flush=True)
time.sleep(60)
"""  # without `if __name__ == "__main__"`, which users forget


@pytest.mark.parametrize("target", ["sleeps", "stops_in_good_order"])
@pytest.mark.parametrize("stopped", [False, True])
def test_children_end_with_a_parent_that_is_killed(tmp_path, target, stopped):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), target]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.getcwd()})
    child = int(parent.stdout.readline())
    if stopped:
        os.kill(child, signal.SIGSTOP)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert soon(lambda: gone(child))


SLOW_MODULE = """
import os, time

if "IN_CHILD" in os.environ:
    print(os.getpid(), flush=True)
    time.sleep(1)


def target(pipe):
    time.sleep(60)
"""

SLOW_SCRIPT = """
import os, sys, time
import slow_module
from mrq.processes import Child

os.environ["IN_CHILD"] = "1"
child = Child(slow_module.target, (), independent=sys.argv[1] == "independent")
time.sleep(60)
"""


@pytest.mark.parametrize("kind", ["dependent", "independent"])
def test_a_child_that_was_stopped_while_it_imports_modules_ends_with_its_parent(tmp_path, kind):
    (tmp_path / "slow_module.py").write_text(SLOW_MODULE)
    script = tmp_path / "script.py"
    script.write_text(SLOW_SCRIPT)
    command = [sys.executable, str(script), kind]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.getcwd()})
    child = int(parent.stdout.readline())
    assert os.getpgid(child) == child, "a Ctrl-C at the terminal reaches it no more"
    os.kill(child, signal.SIGSTOP)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert soon(lambda: gone(child))


def test_environment_variables_are_restored(monkeypatch):
    monkeypatch.setenv("MRQ_ONE", "before")
    monkeypatch.delenv("MRQ_TWO", raising=False)
    with environment_variables({"MRQ_ONE": "1", "MRQ_TWO": "2"}):
        assert (os.environ["MRQ_ONE"], os.environ["MRQ_TWO"]) == ("1", "2")
    assert os.environ["MRQ_ONE"] == "before"
    assert "MRQ_TWO" not in os.environ
