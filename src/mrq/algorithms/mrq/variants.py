"""The twelve variants of the paper's design study (section 5.2), by name: what each changes of the hyperparameters."""

from typing import Any

VARIANTS: dict[str, dict[str, Any]] = {
    "linear-value-function": {"linear_value": True},
    "dynamics-target": {"state_action_target": True},
    "no-target-encoder": {"target_encoder": False},
    "revert": {"linear_value": True, "state_action_target": True, "target_encoder": False},
    "non-linear-model": {"linear_model": False},
    "mse-reward-loss": {"categorical_reward": False},
    "no-reward-scaling": {"reward_scaling": False},
    "no-min": {"minimum_target": False},
    "no-lap": {"prioritised": False},
    "no-mr": {"model_based": False},
    "one-step-return": {"value_horizon": 1},
    "no-unroll": {"encoder_horizon": 1},
}
