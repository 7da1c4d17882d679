"""What only Linux has is not needed: macOS has no `sched_getaffinity`, no `prctl` and no /proc."""

import ctypes
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mrq.environments.rendering import advice, chosen_renderer
from mrq.memory import available_memory
from mrq.processes import Child, cores
from mrq.training.provenance import machine
from tests.command_line import MODULES, SMALL, mrq, rows

# Python imports it first, in a command and in the processes that this starts. It leaves a trace of what was asked for.
SITECUSTOMIZE = """
import ctypes, os, pathlib, sys

del os.sched_getaffinity

def elsewhere(method):
    def called(path, *arguments, **options):
        if str(path).startswith(("/proc/", "/sys/")):
            open({trace!r}, "a").write(f"{{path}}\\n")
            raise FileNotFoundError(2, "there is no such file", str(path))
        return method(path, *arguments, **options)
    return called

for name in ("read_text", "write_text"):
    setattr(pathlib.Path, name, elsewhere(getattr(pathlib.Path, name)))
"""


@pytest.fixture
def macos(monkeypatch):
    """Takes away what macOS does not have."""
    read_text = Path.read_text

    def absent(path, *arguments, **options):
        if str(path).startswith(("/proc/", "/sys/")):
            raise FileNotFoundError(2, "there is no such file", str(path))
        return read_text(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", absent)
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delenv("MUJOCO_GL", raising=False)


@pytest.mark.usefixtures("macos")
def test_the_machine_is_described(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 10)
    monkeypatch.setattr(platform, "processor", lambda: "arm")
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 1_000_000, "SC_PAGE_SIZE": 16_384}.__getitem__)
    assert cores() == 10
    assert available_memory(torch.device("cpu")) == 16_384_000_000
    assert (machine()["cpus"], machine()["cpu"]) == (10, "arm")


@pytest.mark.usefixtures("macos")
def test_glfw_renders(monkeypatch):
    assert chosen_renderer() == "glfw"
    assert advice(OSError("no display")) == "rendering on macOS needs GLFW and a screen (OSError: no display)."
    monkeypatch.setenv("MUJOCO_GL", "cgl")
    assert chosen_renderer() == "cgl"


def begins_again(pipe):
    """Begins a second time, in a process, as on macOS."""
    from mrq import processes

    os.setsid = lambda: None
    sys.platform = "darwin"
    ctypes.CDLL = None
    os.environ[processes.SAFE_PATH] = "1"
    processes._begin(False, -1, None)
    pipe.send("begun")


def test_a_child_begins_without_prctl():
    child = Child(begins_again, ())
    try:
        assert child.receive(30) == "begun"
    finally:
        child.end()


@pytest.mark.slow
def test_training_gives_the_same_results(tmp_path):
    folder, trace = tmp_path / "python", tmp_path / "trace"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SITECUSTOMIZE.format(trace=str(trace)))
    for name, modules in (("linux", MODULES), ("macos", os.pathsep.join([str(folder), MODULES]))):
        (tmp_path / name).mkdir()
        command = ("train", "Pendulum-v1", *SMALL, "--steps", 210, "--workers", 1)
        code, _, err = mrq(*command, cwd=tmp_path / name, PYTHONPATH=modules)
        assert code == 0, err
    assert {"/proc/meminfo", "/proc/cpuinfo", "/proc/self/comm"} <= set(trace.read_text().split())
    linux, macos = (rows(tmp_path / name / "runs" / "Pendulum-v1" / "seed-0") for name in ("linux", "macos"))
    assert linux == macos


def test_windows_is_refused_in_a_sentence():
    code = "import sys; sys.platform = 'win32'; import mrq"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stderr.splitlines()[-1] == "ImportError: mrq runs on Linux and macOS; on Windows, use WSL."
