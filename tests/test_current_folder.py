"""What lies in the folder where a command is given is not imported, unless the user names it."""

import os
import subprocess
import sys

import pytest

from tests.command_line import SMALL, mrq, steps_in

HOSTILE = """
open({trace!r}, "w").close()
raise ImportError("this module must not be imported")
"""
# What Python, we and our libraries import; GLFW, which comes with MuJoCo, starts a Python that imports ctypes.
NAMES = [
    *("argparse", "ctypes", "enum", "json", "logging", "multiprocessing", "pickle", "random", "re", "selectors"),
    *("signal", "socket", "struct", "subprocess", "tempfile", "threading", "typing"),
    *("gymnasium", "matplotlib", "mujoco", "numpy", "rich", "safetensors", "tensorboard", "torch", "tyro"),
]

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path):
    """Returns a folder of modules that leave a trace when they are imported."""
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(HOSTILE.format(trace=str(tmp_path / f"{name} was imported")))
    yield tmp_path
    assert not list(tmp_path.glob("* was imported"))


def test_no_command_imports_what_lies_in_the_current_folder(folder):
    run = "runs/gym/Hopper-v4/seed-0"
    for command in (
        ["train", "gym/Hopper-v4", *SMALL, "--steps", 210, "--workers", 1],
        ["resume", run, "--steps", 220],
        ["evaluate", run, "--episodes", 1],
        ["report", "runs", "--html", "report.html"],
    ):
        code, _, err = mrq(*command, cwd=folder)
        assert code == 0, err
    assert steps_in(folder / run) == [0, 200, 210, 220]


COMPILED = """
import torch
from mrq.execution import Function
function = Function(lambda x: x * 2)
function.compile(print, lambda: print("compiled"))
print(function(torch.ones(8)).sum().item())
"""


def test_pytorchs_compiler_imports_nothing_from_there(folder, tmp_path_factory):
    fresh = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path_factory.mktemp("compiled"))}  # what is cached is not tried again
    code, out, err = mrq("doctor", cwd=folder, **fresh)
    assert (code, "ok       compiler" in out) == (0, True), out + err
    python = [sys.executable, "-P", "-c", COMPILED]
    ended = subprocess.run(python, cwd=folder, env=os.environ | fresh, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == ["compiled", "16.0"]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_module_that_the_user_names_is_found_there(tmp_path, workers):
    (tmp_path / "my_module.py").write_text(
        "import gymnasium\nimport my_neighbour\ndef make():\n    return gymnasium.make(my_neighbour.ID)\n"
    )
    (tmp_path / "my_neighbour.py").write_text("ID = 'CartPole-v1'\n")
    code, _, err = mrq("train", "my_module:make", *SMALL, "--steps", 210, "--workers", workers, cwd=tmp_path)
    assert code == 0, err
    assert steps_in(tmp_path / "runs" / "my_module-make" / "seed-0") == [0, 200, 210]
