"""The hyperparameters of the DrQ-v2 paper (its appendix B): one set for every task.

Deviation: the paper changes a few of them for walker, humanoid and quadruped-run; see docs/drqv2.md.
"""

from dataclasses import dataclass

from mrq.algorithms.checking import check_discount, check_fields, check_start
from mrq.errors import MRQError
from mrq.interface import ReplaySettings

SIZES = {"batch_size", "feature_size", "hidden_width"}
MAY_BE_ZERO = {"discount", "learning_rate", "exploration_start", "exploration_end", "exploration_decay", "noise_clip"}


@dataclass(frozen=True)
class Hyperparameters:
    """The paper's values."""

    random_steps: int = 2_000
    """Environment steps with random actions before training begins."""
    exploration_start: float = 1.0
    """Standard deviation of the noise on training actions at the first step, in units of [-1, 1]."""
    exploration_end: float = 0.1
    """Standard deviation of that noise once it has stopped falling."""
    exploration_decay: int = 0
    """Environment steps over which it falls; 0: 100,000, 500,000 or 2,000,000 by the difficulty of the task."""
    noise_clip: float = 0.3
    """Where the same noise is clipped on the actions that the critic and the actor are trained with."""

    discount: float = 0.99
    """Discount factor."""
    value_horizon: int = 3
    """Steps of reward in a value target."""
    replay_capacity: int = 1_000_000
    """Observations the replay holds at most."""
    batch_size: int = 256
    """Windows in a mini-batch."""
    update_every: int = 2
    """Environment steps per update."""

    learning_rate: float = 1e-4
    """Learning rate of the encoder, the critic and the actor."""
    target_rate: float = 0.01
    """Share of the critic that moves into the target critic at every update."""
    feature_size: int = 50
    """Size of the features that the critic and the actor each make of the encoded image."""
    hidden_width: int = 1_024
    """Width of every hidden layer."""

    def __post_init__(self) -> None:
        check_fields(self, MAY_BE_ZERO, SIZES)
        check_discount(self.discount)
        if self.target_rate > 1:
            raise MRQError(f"target_rate is {self.target_rate}; it must be at most 1.")
        check_start(self.random_steps, self.replay.horizon)

    @property
    def replay(self) -> ReplaySettings:
        """What DrQ-v2 asks of its replay.

        Deviation: steps of the current episode can be sampled; in the original, an episode must be over first.
        """
        return ReplaySettings(self.replay_capacity, self.value_horizon)
