"""The twelve variants of the paper's design study (section 5.2), by name: what each changes of the hyperparameters."""

from dataclasses import asdict, replace
from typing import Any

from mrq.environments.tasks import PROTOCOLS
from mrq.hyperparameters import Hyperparameters
from mrq.training.run_folder import MRQ

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
DEFAULT = MRQ
ATARI_STEPS = 1_000_000  # of the study in Atari; elsewhere it is as long as all else


def variant_of(hyperparameters: Hyperparameters) -> str:
    """The name of what these are: MR.Q, a variant, or MR.Q with what was changed."""
    plain = asdict(Hyperparameters())
    changes = {name: value for name, value in asdict(hyperparameters).items() if value != plain[name]}
    if not changes:
        return DEFAULT
    own = f"{DEFAULT} with {', '.join(f'{name}={value}' for name, value in changes.items())}"
    return next((variant for variant, theirs in VARIANTS.items() if theirs == changes), own)


def steps_of(suite: str) -> int:
    """Steps after which the study compares its variants."""
    return ATARI_STEPS if suite == "atari" else PROTOCOLS[suite].steps


def varied(hyperparameters: Hyperparameters, variant: str) -> Hyperparameters:
    return replace(hyperparameters, **VARIANTS[variant])
