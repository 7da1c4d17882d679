"""The settings of a run, and the one place where they are checked."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from mrq.algorithms.algorithm import Algorithm
from mrq.algorithms.registry import algorithm_of, default_algorithm
from mrq.environments.tasks import protocol_of, suite_of
from mrq.errors import MRQError

MOST_STEPS = 10_000_000_000
Switch = Literal["auto", "on", "off"]
Precision = Literal["auto", "float32", "tf32", "bf16"]
OF_MACHINE = ("device", "workers", "checkpoint_minutes", "environment_timeout")  # may change when a run is resumed
CHOICES = {"compile": get_args(Switch), "precision": get_args(Precision), "overlap": get_args(Switch)}


@dataclass(frozen=True)
class Settings:
    """How long to train, where, and with which algorithm and hyperparameters."""

    steps: int | None = None
    """Environment steps (agent decisions) to train for; by default the suite's, which `mrq tasks` shows."""
    evaluate_every: int | None = None
    """Steps between evaluations; 0 means none; by default the suite's."""
    evaluation_episodes: int = 10
    """Episodes per evaluation."""
    checkpoint_minutes: float = 5.0
    """Minutes between checkpoints; one is also written at the end and when interrupted."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N; auto uses a GPU if there is one."""
    compile: Switch = "auto"
    """Compile the updates, and capture them as CUDA graphs on a GPU; auto does so where the run is long enough."""
    precision: Precision = "auto"
    """Precision of matrix products; auto is bf16 on a GPU that has it, else float32. tf32 is float32 on a CPU."""
    overlap: Switch = "auto"
    """Step environments while the device updates, with actions chosen before those updates; auto does so on a GPU."""
    workers: int | None = None
    """Processes that step the environments, 0 for none; by default as many as make training faster."""
    environment_timeout: float = 300.0
    """Seconds after which an environment in its own process counts as failed; making it may take 300 more."""
    hyperparameters: Any = field(default_factory=lambda: default_algorithm().hyperparameters())

    def __post_init__(self) -> None:
        for name in ("steps", "evaluate_every", "evaluation_episodes", "workers"):
            if not isinstance(getattr(self, name), int | None):
                option = name.replace("_", "-")
                raise MRQError(f"--{option} is {getattr(self, name)!r}; it must be a whole number.")
        if self.steps is not None and not 0 < self.steps <= MOST_STEPS:
            raise MRQError(f"--steps is {self.steps:,}; it must be between 1 and {MOST_STEPS:,}.")
        if self.evaluate_every is not None and self.evaluate_every < 0:
            raise MRQError(f"--evaluate-every is {self.evaluate_every:,}; it must be 0 (never) or more.")
        if self.evaluation_episodes < 1:
            raise MRQError(f"--evaluation-episodes is {self.evaluation_episodes}; it must be 1 or more.")
        if not 0 <= self.checkpoint_minutes < float("inf"):
            raise MRQError(f"--checkpoint-minutes is {self.checkpoint_minutes}; it must be 0 or more.")
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise MRQError(f"--{name} is {getattr(self, name)!r}; it must be {', '.join(choices)}.")
        if self.workers is not None and self.workers < 0:
            raise MRQError(f"--workers is {self.workers}; it must be 0 (none) or more.")
        if not 0 < self.environment_timeout < float("inf"):
            raise MRQError(f"--environment-timeout is {self.environment_timeout}; it must be above 0.")

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm that these hyperparameters belong to."""
        return algorithm_of(self.hyperparameters)

    def on_machine_of(self, other: "Settings") -> "Settings":
        """Returns these settings with the other's device, processes and times."""
        return replace(self, **{name: getattr(other, name) for name in OF_MACHINE})

    @property
    def total_steps(self) -> int:
        assert self.steps is not None, "complete the settings first"
        return self.steps

    @property
    def evaluation_period(self) -> int:
        """Steps between evaluations; 0 means none."""
        assert self.evaluate_every is not None, "complete the settings first"
        return self.evaluate_every

    def evaluates_at(self, step: int) -> bool:
        """Says whether agents are evaluated at this step.

        Deviation: also at the end, so that the last row is the trained agent's.
        """
        period = self.evaluation_period
        return period > 0 and (step % period == 0 or step == self.total_steps)

    def completed(self, tasks: Sequence[str]) -> "Settings":
        """Returns these settings with what is still None set as the suites of `tasks` have it; they must agree."""
        filled = {}
        for name in ("steps", "evaluate_every"):
            if getattr(self, name) is None:
                values = {getattr(protocol_of(task), name): suite_of(task) for task in tasks}
                if len(values) > 1:
                    option = f"--{name.replace('_', '-')}"
                    theirs = " and ".join(f"{value:,} in {suite}" for value, suite in values.items())
                    raise MRQError(f"these tasks' suites differ in {option}: {theirs}; give one.")
                (filled[name],) = values
        return replace(self, **filled)


def checked_seeds(seeds: tuple[int, ...]) -> tuple[int, ...]:
    """Refuses seeds that are repeated or not whole numbers from 0 on."""
    whole = all(isinstance(seed, int) and seed >= 0 for seed in seeds)
    if not seeds or not whole or len(set(seeds)) < len(seeds):
        raise MRQError(f"the seeds are {list(seeds)}; they must be different whole numbers, 0 or more.")
    return seeds
