"""The twelve variants of the paper's design study (section 5.2), by name: what each changes of the hyperparameters."""

from dataclasses import replace
from typing import Any

from mrq.errors import MRQError
from mrq.hyperparameters import Hyperparameters

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


DEFAULT = "MR.Q"
CUSTOM = "MR.Q, changed"


def variant_of(hyperparameters: Hyperparameters) -> str:
    """Which of them these are; what is none of the paper's is only said to be changed."""
    known = {DEFAULT: Hyperparameters()} | {name: varied(Hyperparameters(), name) for name in VARIANTS}
    return next((name for name, theirs in known.items() if theirs == hyperparameters), CUSTOM)


def varied(hyperparameters: Hyperparameters, variant: str) -> Hyperparameters:
    if variant not in VARIANTS:
        raise MRQError(f"there is no variant {variant!r}; there are {', '.join(VARIANTS)}.")
    return replace(hyperparameters, **VARIANTS[variant])
