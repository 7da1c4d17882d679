"""The paper's table of hyperparameters (appendix B.1): one set for every environment, in the paper's groups."""

from dataclasses import dataclass
from typing import Annotated

from mrq.algorithms.checking import check_start
from mrq.bounds import Between, Rate, Size, check_fields
from mrq.errors import MRQError
from mrq.interface import LONGEST_HORIZON, ReplaySettings

SMALL_WIDTH = 256  # of networks whose products take a CPU less time than the calls around them


@dataclass(frozen=True)
class Hyperparameters:
    """The paper's values. They need no tuning."""

    dynamics_weight: Rate = 1.0
    """Weight of the dynamics loss."""
    reward_weight: Rate = 0.1
    """Weight of the reward loss."""
    terminal_weight: Rate = 0.1
    """Weight of the terminal loss, once a termination has been seen."""
    pre_activation_weight: Rate = 1e-5
    """Weight of the penalty on the policy's squared pre-activations."""
    encoder_horizon: Annotated[int, Between(1, LONGEST_HORIZON)] = 5
    """Steps over which the model is unrolled in the encoder loss."""
    value_horizon: Annotated[int, Between(1, LONGEST_HORIZON)] = 3
    """Steps of reward in a value target."""

    target_policy_noise: Rate = 0.2
    """Standard deviation of the noise on target actions, in units of [-1, 1]."""
    target_policy_noise_clip: Rate = 0.3
    """Where that noise is clipped."""

    priority_exponent: Annotated[float, Between(0, 1)] = 0.4
    """LAP's probability smoothing."""
    minimum_priority: Annotated[float, Between(1e-6, 10**6)] = 1.0
    """LAP's smallest TD error, before smoothing."""

    random_steps: int = 10_000
    """Environment steps with random actions before training begins."""
    exploration_noise: Rate = 0.2
    """Standard deviation of the noise on training actions, in units of [-1, 1]."""

    discount: Annotated[float, Between(0, 0.999999)] = 0.99
    """Discount factor."""
    replay_capacity: int = 1_000_000
    """Observations the replay holds at most."""
    batch_size: Size = 256
    """Windows in a mini-batch."""
    updates_per_step: Annotated[float, Between(1e-3, 100)] = 1.0
    """Updates of value and policy per environment step, the paper's replay ratio; fractions are allowed."""
    target_period: int = 250
    """Updates between two synchronisations of the target networks, and encoder updates at each."""

    encoder_learning_rate: Rate = 1e-4
    """Learning rate of the encoder."""
    weight_decay: Rate = 1e-4
    """AdamW's weight decay, for all three optimisers."""
    state_embedding: Size = 512
    """Size of the state embedding."""
    action_embedding: Size = 256
    """Size of the action embedding, inside the state-action encoder."""
    state_action_embedding: Size = 512
    """Size of the state-action embedding."""
    hidden_width: Size = 512
    """Width of every hidden layer."""
    reward_bins: Annotated[int, Between(2, 65_536)] = 65
    """Bins of the two-hot reward."""
    reward_range: Annotated[float, Between(1e-3, 80)] = 10.0
    """The bins span symexp(-range) to symexp(range)."""

    value_learning_rate: Rate = 3e-4
    """Learning rate of the value networks."""
    value_gradient_clip: float = 20.0
    """Norm to which the value gradient is clipped."""

    policy_learning_rate: Rate = 3e-4
    """Learning rate of the policy."""
    gumbel_temperature: Annotated[float, Between(1e-6, 10**6)] = 10.0
    """Temperature of the Gumbel-Softmax, for discrete actions."""

    linear_value: bool = False
    """Design study: values are linear in the state-action embedding."""
    state_action_target: bool = False
    """Design study: the dynamics loss aims at the next state-action embedding, by the target policy's action."""
    target_encoder: bool = True
    """Design study: the dynamics loss aims at the target encoder's embedding, and not at one trained with it."""
    linear_model: bool = True
    """Design study: the model is one linear layer, and not a network for each of its predictions."""
    categorical_reward: bool = True
    """Design study: rewards are predicted as two-hot distributions, and not by their mean-squared error."""
    reward_scaling: bool = True
    """Design study: values are scaled by the mean absolute reward."""
    minimum_target: bool = True
    """Design study: value targets take the smaller of the two critics, and not their mean."""
    prioritised: bool = True
    """Design study: LAP samples by priority with a Huber loss, and not uniformly with a mean-squared error."""
    model_based: bool = True
    """Design study: the encoder learns the model, and not the value end to end."""

    def __post_init__(self) -> None:
        check_fields(self)
        horizon = self.replay.horizon
        if self.state_action_target and self.state_embedding != self.state_action_embedding:
            raise MRQError(
                f"state_embedding is {self.state_embedding} and state_action_embedding {self.state_action_embedding}; "
                "with state_action_target they must be the same."
            )
        check_start(self.random_steps, horizon)

    @property
    def replay(self) -> ReplaySettings:
        """What MR.Q asks of its replay."""
        horizon = max(self.encoder_horizon, self.value_horizon)
        return ReplaySettings(self.replay_capacity, horizon, self.priority_exponent, self.minimum_priority)
