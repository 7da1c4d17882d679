"""What a run is asked to do, and the one place where that is checked."""

from dataclasses import dataclass, field
from typing import Literal

import torch

from mrq.errors import MRQError
from mrq.hyperparameters import Hyperparameters

MOST_STEPS = 10_000_000_000


@dataclass(frozen=True)
class Settings:
    """How long to train, where, and what to record."""

    steps: int = 1_000_000
    """Environment steps (agent decisions) to train for."""
    evaluate_every: int = 5_000
    """Steps between evaluations; 0 for none."""
    evaluation_episodes: int = 10
    """Episodes in an evaluation."""
    checkpoint_minutes: float = 5.0
    """Minutes between checkpoints; one is also written at the end and when interrupted."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N; auto takes a GPU if there is one."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Compile the updates; auto does where the run is long enough to repay it."""
    hyperparameters: Hyperparameters = field(default_factory=Hyperparameters)

    def __post_init__(self) -> None:
        if not 0 < self.steps <= MOST_STEPS:
            raise MRQError(f"--steps is {self.steps:,}; it must be between 1 and {MOST_STEPS:,}.")
        if self.evaluate_every < 0:
            raise MRQError(f"--evaluate-every is {self.evaluate_every:,}; it must be 0 (never) or more.")
        if self.evaluation_episodes < 1:
            raise MRQError(f"--evaluation-episodes is {self.evaluation_episodes}; it must be 1 or more.")
        if not 0 <= self.checkpoint_minutes < float("inf"):
            raise MRQError(f"--checkpoint-minutes is {self.checkpoint_minutes}; it must be 0 or more.")
        if self.compile not in ("auto", "on", "off"):
            raise MRQError(f"--compile is {self.compile!r}; it must be auto, on or off.")


def checked_seeds(seeds: tuple[int, ...]) -> tuple[int, ...]:
    whole = all(isinstance(seed, int) and seed >= 0 for seed in seeds)
    if not seeds or not whole or len(set(seeds)) < len(seeds):
        raise MRQError(f"the seeds are {list(seeds)}; they must be different whole numbers, 0 or more.")
    return seeds


def chosen_device(name: str) -> torch.device:
    torch.backends.cudnn.allow_tf32 = False  # PyTorch's default rounds convolutions alone
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise MRQError(f"there is no device {name!r}; give auto, cpu, cuda or cuda:N.") from None
    if device.type not in ("cpu", "cuda"):
        raise MRQError(f"the device {name!r} is not supported; give auto, cpu, cuda or cuda:N.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise MRQError(f"{name} was asked for and PyTorch sees {torch.cuda.device_count()} GPUs; use cpu or auto.")
    return device
