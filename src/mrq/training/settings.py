"""The settings of a run, and the one place where they are checked."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from mrq.algorithms.algorithm import Algorithm
from mrq.algorithms.registry import algorithm_of, default_algorithm
from mrq.bounds import (
    LARGEST_SEED,
    MOST_AGENTS,
    MOST_ENVIRONMENTS,
    MOST_EPISODES,
    MOST_STEPS,
    Between,
    check_fields,
    option,
    shown,
)
from mrq.environments.options import EnvironmentOptions
from mrq.environments.tasks import protocol_of, suite_of
from mrq.errors import MRQError
from mrq.printable import is_encodable

if TYPE_CHECKING:
    from mrq.environments.recipe import Recipe

Switch = Literal["auto", "on", "off"]
Precision = Literal["auto", "float32", "tf32", "bf16"]
TrackerName = Literal["tensorboard", "wandb", "mlflow", "trackio"]
LOCAL_TRACKERS: tuple[TrackerName, ...] = ("tensorboard",)  # which only write to the run folder
MOST_WORKERS = 1_000
LONGEST_WAIT = 10**6  # minutes or seconds
OF_MACHINE = ("device", "workers", "checkpoint_minutes", "environment_timeout")  # may change when a run is resumed


@dataclass(frozen=True)
class Settings:
    """How long to train, where, and with which algorithm and hyperparameters."""

    steps: Annotated[int | None, Between(1, MOST_STEPS)] = None
    """Environment steps (agent decisions) to train for; by default the suite's, which `mrq tasks` shows."""
    evaluate_every: Annotated[int | None, Between(0, MOST_STEPS)] = None
    """Steps between evaluations; 0 means none; by default the suite's."""
    evaluation_episodes: Annotated[int, Between(1, MOST_EPISODES)] = 10
    """Episodes per evaluation."""
    stop_at_return: Annotated[float | None, Between(-1e30, 1e30)] = None
    """Stop when every agent has had an evaluation with this return."""
    patience: Annotated[int, Between(0, MOST_STEPS)] = 0
    """Stop when no agent has improved its best return for so many evaluations; 0 means never."""
    film_every: Annotated[int, Between(0, MOST_STEPS)] = 0
    """Evaluations from one film of the agent to the next, in RUN/films; 0 means none."""
    checkpoint_minutes: Annotated[float, Between(0, LONGEST_WAIT)] = 5.0
    """Minutes between checkpoints; one is also written at the end and when interrupted."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:N, or mps: Apple's GPU, which is untested. auto uses an NVIDIA GPU if there is one."""
    compile: Switch = "auto"
    """Compile the updates, and capture them as CUDA graphs on a GPU; auto does so where the run is long enough."""
    precision: Precision = "auto"
    """Precision of matrix products; auto is bf16 on a GPU that has it, else float32. tf32 is float32 on a CPU."""
    overlap: Switch = "auto"
    """Step environments while the device updates, with actions chosen before those updates; auto does so on a GPU."""
    envs: Annotated[int, Between(1, MOST_ENVIRONMENTS)] = 1
    """Environments that each agent steps at once."""
    workers: Annotated[int | None, Between(0, MOST_WORKERS)] = None
    """Processes that step the environments, 0 for none; by default as many as make training faster."""
    environment_timeout: Annotated[float, Between(1e-3, LONGEST_WAIT)] = 300.0
    """Seconds after which an environment in its own process counts as failed; making it may take 300 more."""
    track: tuple[TrackerName, ...] = LOCAL_TRACKERS
    """Trackers that are told of the training; without any name, none is."""
    environment: EnvironmentOptions = field(default_factory=EnvironmentOptions)
    hyperparameters: Any = field(default_factory=lambda: default_algorithm().hyperparameters())

    def __post_init__(self) -> None:
        check_fields(self, option)

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm that these hyperparameters belong to."""
        return algorithm_of(self.hyperparameters)

    def with_files_read(self) -> "Settings":
        """Returns these settings without files that may change later."""
        return replace(self, environment=self.environment.with_files_read())

    def recipe(self, task: str) -> "Recipe":
        """Returns what a task's environment is made from."""
        from mrq.environments.recipe import Recipe  # it brings Gymnasium, which reading a run does not need

        return Recipe(task, self.environment)

    def on_machine_of(self, other: "Settings") -> "Settings":
        """Returns these settings with the other's device, processes and times."""
        return replace(self, **{name: getattr(other, name) for name in OF_MACHINE})

    @property
    def total_steps(self) -> int:
        """The steps that training ends with: as many in each of an agent's environments."""
        assert self.steps is not None, "complete the settings first"
        return -(-self.steps // self.envs) * self.envs

    @property
    def evaluation_period(self) -> int:
        """Steps between evaluations; 0 means none."""
        assert self.evaluate_every is not None, "complete the settings first"
        return self.evaluate_every

    def evaluates_at(self, step: int) -> bool:
        """Says whether agents, which take `envs` steps at once, are evaluated when they have taken so many.

        Deviation: also at the end, so that the last row is the trained agent's.
        """
        period = self.evaluation_period
        return period > 0 and (step % period < self.envs or step == self.total_steps)

    def completed(self, tasks: Sequence[str]) -> "Settings":
        """Returns these settings with what is still None set as the suites of `tasks` have it; they must agree."""
        filled = {}
        for name in ("steps", "evaluate_every"):
            if getattr(self, name) is None:
                values = {getattr(protocol_of(task), name): suite_of(task) for task in tasks}
                if len(values) > 1:
                    theirs = " and ".join(f"{value:,} in {suite}" for value, suite in values.items())
                    raise MRQError(f"these tasks' suites differ in {option(name)}: {theirs}; give one.")
                (filled[name],) = values
        completed = replace(self, **filled)
        if not completed.evaluation_period:
            waiting = {"stop_at_return": self.stop_at_return is not None, "patience": self.patience > 0}
            for name, waits in {**waiting, "film_every": self.film_every > 0}.items():
                if waits:
                    raise MRQError(f"{option(name)} waits for evaluations; give --evaluate-every.")
        return completed


def checked_task(task: str) -> str:
    """Refuses a task's name that is empty, or that no file can hold."""
    if not task or not is_encodable(task):
        raise MRQError(f"the task {task!r} is empty or has characters that no text can have; give another one.")
    return task


def checked_seeds(seeds: tuple[int, ...]) -> tuple[int, ...]:
    """Refuses seeds that are repeated, too many or not whole numbers from 0 on."""
    if len(seeds) > MOST_AGENTS:
        raise MRQError(f"there are {len(seeds):,} seeds; give at most {MOST_AGENTS:,}.")
    whole = all(isinstance(seed, int) and 0 <= seed <= LARGEST_SEED for seed in seeds)
    if not seeds or not whole or len(set(seeds)) < len(seeds):
        raise MRQError(
            f"the seeds are [{', '.join(map(shown, seeds[:10]))}]; they must be different whole numbers, 0 or more, "
            f"and at most {LARGEST_SEED:,}."
        )
    return seeds
