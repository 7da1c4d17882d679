"""Whether to compile the updates: where the run is long enough to repay it, and where there is a compiler."""

import logging
import warnings
from collections.abc import Sequence
from itertools import count

import torch

from mrq.errors import MRQError
from mrq.execution import Work, accelerate, can_compile
from mrq.interface import Say
from mrq.training.settings import Settings

COMPILER = "a C++ compiler and Python's headers (Debian: g++ and python3-dev), or Triton on a GPU"


def worth_compiling(settings: Settings, device: torch.device) -> bool:
    """Says whether to compile."""
    if settings.compile != "auto" or device.type == "mps":  # for which PyTorch's compiler is a prototype
        return settings.compile == "on"
    h = settings.hyperparameters
    updates = (settings.total_steps - h.random_steps) * h.updates_per_step
    return bool(updates >= (settings.algorithm.updates_worth_compiling(h) if device.type == "cpu" else 1))


def compile_if_possible(works: Sequence[Work], device: torch.device, say: Say, required: bool) -> None:
    """Compiles all work. Without a working compiler, work runs uncompiled, or is refused if compiling is `required`."""
    if not any(work.functions for work in works):
        return
    # PyTorch's compiler comments on float32 and on how it computes a softmax, which our own notes cover.
    warnings.filterwarnings("ignore", module=r"torch\._inductor")
    inductor = logging.getLogger("torch._inductor")
    if inductor.level == logging.NOTSET:  # a level that the user chose stays
        inductor.setLevel(logging.ERROR)
    if not can_compile(device):
        if required:
            raise MRQError(f"--compile on needs {COMPILER}; install them, or use --compile off.")
        say("note: no working compiler was found, so updates run uncompiled and slower (Debian: g++, python3-dev)")
        return
    reasons: list[str] = []

    def failed(error: Exception) -> None:
        reasons.append(f"{type(error).__name__}: {error}".splitlines()[0])
        if len(reasons) == 1:  # the others will be the same
            say(f"note: compiling failed, so updates run slower ({reasons[0]})")

    parts, done = len({function for work in works for function in work.functions}), count(1)
    accelerate(works, device, failed, lambda: say(f"compiled part {next(done)} of {parts}"))
