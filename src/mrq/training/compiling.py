"""Whether to compile the updates: where the run is long enough to repay it, and a compiler is there."""

import logging
import warnings
from collections.abc import Callable
from itertools import count

import torch

from mrq.errors import MRQError
from mrq.training.population import Population
from mrq.training.settings import Settings

UPDATES_WORTH_COMPILING = 1_500  # on a CPU: compiling takes a minute and then saves a third of each update

COMPILER = "a C++ compiler and Python's headers (Debian: g++ and python3-dev), or Triton on a GPU"


def worth_compiling(settings: Settings, device: torch.device) -> bool:
    if settings.compile != "auto":
        return settings.compile == "on"
    updates = settings.total_steps - settings.hyperparameters.random_steps
    return updates >= (UPDATES_WORTH_COMPILING if device.type == "cpu" else 1)


def can_compile(device: torch.device) -> bool:
    try:
        torch.compile(lambda x: x + 1)(torch.ones(8, device=device))
    except Exception:
        return False
    return True


def compile_if_possible(population: Population, say: Callable[[str], None], required: bool) -> None:
    """Compiles the updates. Without a working compiler it goes on without, or refuses if `required`."""
    # PyTorch's compiler remarks on float32 and on how it computes a softmax: nothing that our own notes do not say.
    warnings.filterwarnings("ignore", module=r"torch\._inductor")
    inductor = logging.getLogger("torch._inductor")
    if inductor.level == logging.NOTSET:  # whoever chose a level wants to read it
        inductor.setLevel(logging.ERROR)
    if not can_compile(population.device):
        if required:
            raise MRQError(f"--compile on needs {COMPILER}; install them, or use --compile off.")
        say("note: no working compiler was found, so updates run uncompiled and slower (Debian: g++, python3-dev)")
        return
    reasons: list[str] = []

    def failed(error: Exception) -> None:
        reasons.append(f"{type(error).__name__}: {error}".splitlines()[0])
        if len(reasons) == 1:  # the others will be the same
            say(f"note: compiling failed, so updates run slower ({reasons[0]})")

    done = count(1)
    population.compile(failed, lambda: say(f"compiled part {next(done)} of {len(population.learner.functions)}"))
