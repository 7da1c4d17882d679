import subprocess
import sys
import time
from pathlib import Path

import pytest
from gymnasium import spaces

from mrq import MRQError
from mrq.environments.making import make_environment
from mrq.environments.probing import describe_spaces, probe
from mrq.environments.recipe import Recipe
from mrq.interface import Spec
from tests.waiting import gone, soon

HERE = "tests.environments_for_tests"


def test_what_tasks_look_like_and_how_long_they_take():
    found = probe({task: Recipe(task) for task in ("Pendulum-v1", f"{HERE}:Slow")}, 1e300)
    assert found["Pendulum-v1"].spec == Spec(numbers=3, continuous=1)
    assert found["Pendulum-v1"].spaces["action"] == "Box(-2.0, 2.0, (1,), float32)"
    assert found["Pendulum-v1"].seconds < 0.02 < found[f"{HERE}:Slow"].seconds < 0.2


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (f"{HERE}:exits", r"exits does not work: its process ended with exit code 3"),
        (f"{HERE}:killed_after_a_fork", r"killed_after_a_fork does not work: its process was killed by signal 9"),
        (f"{HERE}:fails_when_made", "could not be made: ValueError: no map"),
        ("Pendulun-v1", "did you mean Pendulum-v1"),
    ],
)
def test_a_task_that_does_not_work_is_named(task, words):
    began = time.monotonic()
    with pytest.raises(MRQError, match=words):
        probe({name: Recipe(name) for name in ("Pendulum-v1", task)}, 60)
    assert time.monotonic() - began < 15


def test_a_space_that_shows_where_an_object_lies_is_described_alike_in_every_process():
    environment = make_environment("Pendulum-v1")
    environment.observation_space = Missions(3)
    assert " at 0x" in repr(environment.observation_space)
    assert describe_spaces(environment, False)["observation"] == "Missions(<object object>)"


def test_an_environment_is_closed_after_it_was_tried_out(tmp_path, monkeypatch):
    monkeypatch.setenv("SERVERS", str(tmp_path / "server"))
    probe({0: Recipe(f"{HERE}:Server")}, 60)
    assert gone(int((tmp_path / "server").read_text()))


@pytest.mark.slow
def test_an_environment_that_hangs_is_refused(monkeypatch):
    monkeypatch.setattr("mrq.environments.probing.MAKING_SECONDS", 8.0)
    began = time.monotonic()
    with pytest.raises(MRQError, match="hangs did not answer for 9 seconds"):
        probe({0: Recipe(f"{HERE}:hangs")}, 1.0)
    assert time.monotonic() - began < 20


def test_an_environment_that_hangs_ends_with_the_process_that_tries_it_out():
    script = f"from mrq.environments.probing import Recipe, probe; probe({{0: Recipe('{HERE}:hangs')}}, 1.0)"
    parent = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
    assert soon(lambda: children(parent.pid))
    time.sleep(3)  # it hangs now
    (child,) = [pid for pid in children(parent.pid) if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]
    parent.terminate()
    assert parent.communicate(timeout=20)[1] == ""
    assert soon(lambda: gone(child))


class Missions(spaces.Text):
    """A text space as MiniGrid's, which shows a function."""

    def __repr__(self):
        return f"Missions({object()})"


def children(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
