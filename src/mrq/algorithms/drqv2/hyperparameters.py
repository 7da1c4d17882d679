"""The hyperparameters of the DrQ-v2 paper (its appendix B): one set for every task.

Deviation: the paper changes a few of them for walker, humanoid and quadruped-run; see docs/drqv2.md.
"""

from dataclasses import dataclass
from typing import Annotated

from mrq.algorithms.checking import check_start
from mrq.bounds import MOST_STEPS, Between, Rate, Size, check_fields
from mrq.interface import LONGEST_HORIZON, ReplaySettings


@dataclass(frozen=True)
class Hyperparameters:
    """The paper's values."""

    random_steps: int = 2_000
    """Environment steps with random actions before training begins."""
    exploration_start: Rate = 1.0
    """Standard deviation of the noise on training actions at the first step, in units of [-1, 1]."""
    exploration_end: Rate = 0.1
    """Standard deviation of that noise once it has stopped falling."""
    exploration_decay: Annotated[int, Between(0, MOST_STEPS)] = 0
    """Environment steps over which it falls; 0: 100,000, 500,000 or 2,000,000 by the difficulty of the task."""
    noise_clip: Rate = 0.3
    """Where the same noise is clipped on the actions that the critic and the actor are trained with."""

    discount: Annotated[float, Between(0, 0.999999)] = 0.99
    """Discount factor."""
    value_horizon: Annotated[int, Between(1, LONGEST_HORIZON)] = 3
    """Steps of reward in a value target."""
    replay_capacity: int = 1_000_000
    """Observations the replay holds at most."""
    batch_size: Size = 256
    """Windows in a mini-batch."""
    update_every: int = 2
    """Environment steps per update."""

    learning_rate: Rate = 1e-4
    """Learning rate of the encoder, the critic and the actor."""
    target_rate: Annotated[float, Between(1e-9, 1)] = 0.01
    """Share of the critic that moves into the target critic at every update."""
    feature_size: Size = 50
    """Size of the features that the critic and the actor each make of the encoded image."""
    hidden_width: Size = 1_024
    """Width of every hidden layer."""

    def __post_init__(self) -> None:
        check_fields(self)
        check_start(self.random_steps, self.replay.horizon)

    @property
    def updates_per_step(self) -> float:
        return 1 / self.update_every

    @property
    def replay(self) -> ReplaySettings:
        """What DrQ-v2 asks of its replay.

        Deviation: steps of the current episode can be sampled; in the original, an episode must be over first.
        """
        return ReplaySettings(self.replay_capacity, self.value_horizon)
