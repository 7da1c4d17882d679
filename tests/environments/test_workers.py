import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from mrq.environments.checked import CheckedEnvironment
from mrq.environments.environments import NO_FAULTS, Faults
from mrq.environments.local import LocalEnvironments
from mrq.environments.making import make_environment
from mrq.environments.recipe import Recipe
from mrq.environments.workers import WorkerEnvironments, processes_worth
from mrq.errors import MRQError
from tests.environments_for_tests import Workshop
from tests.training.populations import checked
from tests.waiting import gone, soon

HERE = "tests.environments_for_tests"
COUNTING = f"{HERE}:Counting"


def spec_of(task):
    return CheckedEnvironment(make_environment(task)).spec


@pytest.fixture
def start():
    """Starts workers for tasks. Some of the test environments cannot be made here; they all have Counting's spec."""
    started = []

    def start(*tasks, processes=2, timeout=60.0, seconds=None, specs=None):
        specs = specs or [spec_of(COUNTING if task.startswith(HERE) else task) for task in tasks]
        names = [f"{task} (seed {seed})" for seed, task in enumerate(tasks)]
        workers = WorkerEnvironments(
            list(map(Recipe, tasks)), names, specs, seconds or [0.001] * len(tasks), processes, timeout
        )
        started.append(workers)
        return workers

    yield start
    for workers in started:
        workers.close()
    assert not multiprocessing.active_children()


def stepped(workers, steps, first=0, which=None):
    which = np.ones(len(workers.names), bool) if which is None else np.array(which)
    actions = np.zeros((len(workers.names), workers.spec.action_size), np.float32)
    for step in range(first, first + steps):
        transitions, faults = workers.step(which, actions, step)
        assert step == first + steps - 1 or not faults  # the last step alone may fail
    return transitions, faults


def begun(workers):
    frames, faults = workers.reset(np.ones(len(workers.names), bool), [0] * len(workers.names), 0)
    assert not faults
    return frames


def test_parts_and_masks_come_from_other_processes_as_from_this_one(start):
    here = LocalEnvironments([checked(Workshop()) for _ in range(2)], ["task (seed 0)", "task (seed 1)"])
    workers = start(*[f"{HERE}:Workshop"] * 2, specs=here.specs)
    assert workers.spec.masked
    everyone, allowed = np.ones(2, bool), np.tile(np.array([0, 0, 1, 0, 1], np.float32), (2, 1))  # at two steps
    (frames, faults), (expected, _) = (both.reset(everyone, [3, 4], 0) for both in (workers, here))
    assert faults == NO_FAULTS
    np.testing.assert_array_equal(frames, expected)
    for step in range(2):
        (there, faults), (results, _) = (both.step(everyone, allowed, step) for both in (workers, here))
        assert faults == NO_FAULTS
        np.testing.assert_array_equal(there.next_frames, results.next_frames)
    frame, faults = workers.replay_episode(1, 4, allowed)
    assert faults == NO_FAULTS
    np.testing.assert_array_equal(frame, results.next_frames[1])


def test_results_are_those_of_stepping_in_this_process(start):
    tasks = ["Pendulum-v1", "MountainCarContinuous-v0", "Pendulum-v1", COUNTING]
    workers = start(*tasks)
    here = LocalEnvironments([CheckedEnvironment(make_environment(task)) for task in tasks], workers.names)
    assert (workers.spec, workers.specs) == (here.spec, here.specs)
    random, over = np.random.default_rng(0), np.ones(4, bool)
    for step in range(300):
        if over.any():
            seeds = random.integers(2**31, size=4).tolist()
            (frames, faults), (expected, _) = workers.reset(over, seeds, step), here.reset(over, seeds, step)
            np.testing.assert_array_equal(frames, expected)
            assert faults == NO_FAULTS
        which, actions = random.random(4) < 0.8, random.uniform(-1, 1, (4, 1)).astype(np.float32)
        (there, faults), (results, _) = workers.step(which, actions, step), here.step(which, actions, step)
        assert faults == NO_FAULTS
        assert there.began is results.began is None
        for one, other in zip(there[:-1], results[:-1], strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype
        over = results.terminated | results.truncated


def test_results_stay_what_they_are_after_the_next_step(start):
    workers = start(COUNTING, COUNTING)
    frames = begun(workers)
    first, _ = stepped(workers, 1)
    stepped(workers, 1)
    assert frames.tolist() == [[0, 0], [0, 0]]
    assert first.next_frames.tolist() == [[0, 1], [0, 1]]


def test_images_and_discrete_actions(start):
    tasks = [f"{HERE}:Pixels"] * 2
    workers = start(*tasks, specs=[spec_of(task) for task in tasks])
    here = LocalEnvironments([CheckedEnvironment(make_environment(task)) for task in tasks], workers.names)
    everyone, actions = np.ones(2, bool), np.array([[0, 1], [1, 0]], np.float32)
    np.testing.assert_array_equal(workers.reset(everyone, [1, 2], 0)[0], here.reset(everyone, [1, 2], 0)[0])
    frames = workers.step(everyone, actions, 0)[0].next_frames
    np.testing.assert_array_equal(frames, here.step(everyone, actions, 0)[0].next_frames)


def test_an_episode_can_be_replayed(start):
    workers = start("Pendulum-v1", "MountainCarContinuous-v0", COUNTING)
    actions = np.random.default_rng(0).uniform(-1, 1, (50, 1)).astype(np.float32)
    workers.reset(np.ones(3, bool), [7, 7, 7], 0)
    for step, action in enumerate(actions):
        frames = workers.step(np.ones(3, bool), np.stack([action] * 3), step)[0].next_frames
    for agent in (1, 0):
        frame, faults = workers.replay_episode(agent, 7, actions)
        np.testing.assert_array_equal(frame, frames[agent])
        assert faults == NO_FAULTS
    assert not np.array_equal(workers.replay_episode(0, 8, actions)[0], frames[0])
    assert workers.replay_episode(2, 7, actions) == (None, NO_FAULTS)  # its episodes are shorter


def test_after_a_fault_the_others_continue(start):
    workers = start(COUNTING, f"{HERE}:nan_observation", COUNTING, processes=2)
    begun(workers)
    _, faults = stepped(workers, 30)
    sentence = f"the environment of {HERE}:nan_observation (seed 1) failed at step 29: the observation contains NaN."
    assert faults == Faults({1: sentence}, frozenset())
    others = [True, False, True]
    _, again = stepped(workers, 6, first=30, which=others)
    assert again == NO_FAULTS
    result, again = stepped(workers, 1, first=36)
    assert again == faults  # a caller that asks for it again is told again
    assert result.next_frames.tolist() == [[0, 37], [0, 0], [0, 37]]
    assert result.rewards.tolist() == [36, 0, 36]
    frames, again = workers.reset(np.ones(3, bool), [0, 0, 0], 37)
    assert frames.tolist() == [[1, 0], [0, 0], [1, 0]]
    assert again == faults


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("exits", "its process ended with exit code 3"),
        ("killed", "its process was killed by signal 9"),
        ("hangs", "it did not answer for 2 seconds"),
    ],
)
def test_a_process_that_ends_fails_only_the_environment_that_it_was_calling(start, end, words):
    doomed = f"{HERE}:{end}"
    workers = start(COUNTING, doomed, COUNTING, seconds=[3.0, 1.0, 1.0], timeout=2.0)  # the latter two in one process
    begun(workers)
    assert stepped(workers, 4)[1] == NO_FAULTS
    result, faults = stepped(workers, 1, first=1234)
    failed = {1: f"the environment of {doomed} (seed 1) failed at step 1,234: {words}."}
    assert faults == Faults(failed, frozenset({2}))
    assert result.next_frames.tolist() == [[0, 5], [0, 0], [0, 0]]
    frame, faults = workers.replay_episode(2, 0, np.zeros((4, 1), np.float32))
    assert (frame.tolist(), faults) == ([0, 4], NO_FAULTS)
    result, faults = stepped(workers, 1, first=1234, which=[False, False, True])
    assert (result.next_frames.tolist()[2], faults) == ([0, 5], NO_FAULTS)
    result, faults = stepped(workers, 1, first=1235)
    assert result.next_frames.tolist() == [[0, 6], [0, 0], [0, 6]]
    assert faults == Faults(failed, frozenset())
    assert workers.replay_episode(1, 0, np.zeros((1, 1), np.float32)) == (None, faults)
    assert len(multiprocessing.active_children()) == 2


def test_a_process_that_is_killed_between_steps_is_noticed(start):
    workers = start(COUNTING, COUNTING)
    begun(workers)
    victim = int(multiprocessing.active_children()[0].pid)
    os.kill(victim, signal.SIGKILL)
    (sentence,) = stepped(workers, 1)[1].failed.values()
    assert "failed at step 0: its process was killed by signal 9." in sentence


def test_a_process_whose_pipe_another_holds_open_is_not_waited_for(start):
    workers = start(f"{HERE}:killed_after_a_fork", COUNTING, timeout=15.0)
    begun(workers)
    began = time.monotonic()
    _, faults = stepped(workers, 5)
    assert time.monotonic() - began < 10
    assert "failed at step 4: its process was killed by signal 9." in faults.failed[0]


def test_a_timeout_may_be_practically_infinite(start):
    workers = start(COUNTING, f"{HERE}:Slow", timeout=1e300)
    begun(workers)
    assert stepped(workers, 1)[0].next_frames.tolist() == [[0, 1], [0, 1]]


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (f"{HERE}:fails_when_made", "fails_when_made' could not be made: ValueError: no map"),
        (
            f"{HERE}:exits_when_made",
            r"exits_when_made \(seed 1\) could not be made: its process ended with exit code 3",
        ),
        (f"{HERE}:Missing", "has no 'Missing'"),
        (f"{HERE}:Pixels", "has different spaces each time"),
    ],
)
def test_an_environment_that_cannot_be_made_is_refused_before_training(start, task, words):
    with pytest.raises(MRQError, match=words):
        start(COUNTING, task, processes=1)
    assert not multiprocessing.active_children()


def test_children_load_no_pytorch_ignore_ctrl_c_and_are_named(start, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    workers = start(f"{HERE}:Process", f"{HERE}:Process")
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ
    (one, torch), (other, other_torch) = begun(workers).astype(int).tolist()
    assert len({one, other, os.getpid()}) == 3
    assert not torch
    assert not other_torch
    for pid in (one, other):
        assert b"\0OMP_NUM_THREADS=1\0" in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
        assert f"{HERE}:Process".startswith(Path(f"/proc/{pid}/comm").read_text().strip())
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGTERM)
    assert stepped(workers, 2)[1] == NO_FAULTS


@contextmanager
def interrupt(seconds):
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    with pytest.raises(KeyboardInterrupt):
        yield
    signal.signal(signal.SIGALRM, previous)


def test_stepping_can_continue_after_an_interrupt(start):
    workers = start(COUNTING, f"{HERE}:hangs", COUNTING, seconds=[1.0, 3.0, 1.0], timeout=2.0)
    begun(workers)
    stepped(workers, 4)
    with interrupt(0.3):
        stepped(workers, 1)
    result, faults = stepped(workers, 1)
    assert result.next_frames.tolist() == [[0, 6], [0, 0], [0, 6]]
    assert list(faults.failed) == [1]
    assert "failed during an interrupted call: it did not answer for 2 seconds." in faults.failed[1]


def test_after_an_interrupt_a_restarted_environment_is_brought_back_before_it_is_stepped(start):
    workers = start(f"{HERE}:hangs", COUNTING, processes=1, timeout=2.0)
    begun(workers)
    stepped(workers, 4)
    with interrupt(0.3):
        stepped(workers, 1)
    result, faults = stepped(workers, 1)
    assert result.next_frames.tolist() == [[0, 0], [0, 0]]
    assert (list(faults.failed), faults.restarted) == ([0], {1})
    assert workers.replay_episode(1, 0, np.zeros((5, 1), np.float32))[0].tolist() == [0, 5]
    result, faults = stepped(workers, 1, which=[False, True])
    assert (result.next_frames.tolist(), faults) == ([[0, 0], [0, 6]], NO_FAULTS)


@pytest.mark.slow
def test_what_an_interrupted_call_found_out_is_returned_by_the_next_one(start):
    workers = start(f"{HERE}:exits", f"{HERE}:hangs", COUNTING, processes=2, seconds=[1, 2, 1], timeout=4.0)
    begun(workers)
    stepped(workers, 4)
    with interrupt(2.5):  # by then one has ended and been replaced, and the other hangs
        stepped(workers, 1, first=4)
    _, faults = stepped(workers, 1, first=5)
    assert faults == Faults(
        {
            0: f"the environment of {HERE}:exits (seed 0) failed at step 4: its process ended with exit code 3.",
            1: f"the environment of {HERE}:hangs (seed 1) failed during an interrupted call: it did not answer for 4 "
            "seconds.",
        },
        frozenset({2}),
    )
    assert workers.replay_episode(2, 0, np.zeros((5, 1), np.float32))[0].tolist() == [0, 5]


def test_closing_is_quick_even_in_the_middle_of_a_step_and_can_be_repeated(start):
    workers = start(f"{HERE}:hangs", COUNTING)
    begun(workers)
    stepped(workers, 4)
    with interrupt(0.3):
        stepped(workers, 1)
    pids = [child.pid for child in multiprocessing.active_children()]
    began = time.monotonic()
    workers.close()
    workers.close()
    assert time.monotonic() - began < 5
    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)


def test_an_environments_own_program_ends_with_it_and_not_at_ctrl_c(start, tmp_path, monkeypatch):
    monkeypatch.setenv("SERVERS", str(tmp_path / "server"))
    workers = start(f"{HERE}:Server")
    server = int((tmp_path / "server").read_text())
    assert os.getpgid(server) != os.getpgrp()  # a terminal's Ctrl-C goes to all of a group
    workers.close()
    assert gone(server)


SCRIPT = f"""
import multiprocessing, sys
import numpy as np
from mrq.environments.recipe import Recipe
from mrq.environments.workers import WorkerEnvironments
from mrq.interface import Spec

recipes = [Recipe("{HERE}:hangs"), Recipe("{COUNTING}")]
workers = WorkerEnvironments(recipes, ["a", "b"], [Spec(numbers=2, continuous=1)] * 2, [1, 1], 2, 60.0)
workers.reset(np.ones(2, bool), [0, 0], 0)
print(*[child.pid for child in multiprocessing.active_children()], flush=True)
for step in range(int(sys.argv[1])):
    workers.step(np.ones(2, bool), np.zeros((2, 1), np.float32), step)
"""  # without `if __name__ == "__main__"`, which users forget


@pytest.mark.parametrize(("steps", "end"), [(10, signal.SIGKILL), (10, signal.SIGTERM), (2, None)])
def test_children_end_with_their_parent(tmp_path, steps, end):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    parent = subprocess.Popen(
        [sys.executable, str(script), str(steps)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    if end is not None:
        time.sleep(0.5)  # one of them now hangs
        parent.send_signal(end)
    output, errors = parent.communicate(timeout=20)
    assert soon(lambda: all(gone(pid) for pid in pids))
    assert (output, errors) == ("", "")


def test_processes_are_used_where_they_are_faster():
    assert processes_worth([0.005], 16) == 0
    assert processes_worth([0.005] * 10, 16) == 10
    assert processes_worth([0.005] * 10, 4) == 4
    assert processes_worth([0.005] * 10, 1) == 0
    assert processes_worth([0.00001] * 10, 16) == 0
    assert processes_worth([0.0001] * 10, 16) == 5  # two each: waiting for ten processes takes longer
    assert processes_worth([0.005, 0.0001], 16) == 0  # the short one is not worth a process
    assert processes_worth([0.008, 0.004, 0.004, 0.003, 0.002], 16) == 3  # all wait for the first


def test_long_environments_are_spread_first(start):
    workers = start(*[f"{HERE}:Process"] * 4, seconds=[1.0, 1.0, 3.0, 1.0])
    pids = begun(workers)[:, 0].tolist()
    assert pids[0] == pids[1] == pids[3] != pids[2]
