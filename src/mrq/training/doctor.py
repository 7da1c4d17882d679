"""What works on this machine, what is missing, and how to fix it."""

import importlib.metadata
import platform
import shutil
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from mrq.environments.probing import trials
from mrq.environments.recipe import Recipe
from mrq.environments.rendering import chosen_renderer
from mrq.environments.tasks import PROTOCOLS, names_in
from mrq.errors import MRQError
from mrq.execution import can_compile
from mrq.memory import available_memory, readable
from mrq.processes import cores
from mrq.training.compiling import COMPILER
from mrq.training.devices import chosen_device
from mrq.version import __version__

TIMEOUT = 60.0  # seconds beyond what a task may take to be made
PACKAGES = {"gym": "mujoco", "dmc": "dm_control", "dmc-visual": "dm_control", "atari": "ale-py"}


class Finding(NamedTuple):
    """One thing that was looked at."""

    what: str
    works: bool
    details: str  # what was found, or what is missing and how to get it


def findings() -> Iterator[Finding]:
    """Looks at everything that training may need."""
    cpu = torch.device("cpu")
    here = f"{cores()} cores, {readable(available_memory(cpu))} of memory free"
    yield Finding(
        "mrq", True, f"{__version__}, Python {platform.python_version()}, PyTorch {torch.__version__}, {here}"
    )
    yield _gpu()
    compiles = can_compile(chosen_device("auto"))
    yield Finding("compiler", compiles, "updates can be compiled" if compiles else f"install {COMPILER}")
    for suite, obstacle in obstacles(tuple(PROTOCOLS)):
        yield Finding(f"{suite}/…", False, obstacle) if obstacle else _suite(suite)


def obstacles(suites: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Says for each suite why its tasks cannot run here, or None; runs the suite's first task to find out."""
    first = {suite: names_in(suite)[0] for suite in suites}
    results = trials([Recipe(task) for task in first.values()], TIMEOUT)
    for suite, (_, result) in zip(first, results, strict=True):
        yield suite, str(result) if isinstance(result, MRQError) else None


def _gpu() -> Finding:
    if torch.cuda.is_available():
        memory = readable(torch.cuda.get_device_properties(0).total_memory)
        more = f", and {torch.cuda.device_count() - 1} more" if torch.cuda.device_count() > 1 else ""
        return Finding("GPU", True, f"{torch.cuda.get_device_name(0)}, {memory}{more}")
    if shutil.which("nvidia-smi") is None:
        return Finding("GPU", False, "there is no NVIDIA driver: training runs on the CPU, which is much slower")
    if torch.version.cuda is None:
        return Finding("GPU", False, "this PyTorch was built without CUDA: install one that was built with it")
    return Finding(
        "GPU", False, f"PyTorch's CUDA {torch.version.cuda} does not work with this driver: update the driver"
    )


def _suite(suite: str) -> Finding:
    package = PACKAGES[suite]
    details = f"{package} {importlib.metadata.version(package)}"
    if suite == "dmc-visual":
        details += f", rendered by {chosen_renderer().upper()}"
    elif suite == "atari":
        details += " with its ROMs"
    return Finding(f"{suite}/…", True, details)
