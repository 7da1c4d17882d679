"""What an update of one agent learns from: its mini-batch, the scales of its values, and what never changes."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from mrq.algorithms.mrq.hyperparameters import Hyperparameters
from mrq.algorithms.mrq.noise import Noise
from mrq.interface import Spec


class Batch(NamedTuple):
    """An agent's mini-batch of windows, with the noise that its update uses."""

    states: Tensor  # (batch, chosen, *state_shape), the first of each window and later ones
    actions: Tensor  # (batch, horizon, action_size)
    rewards: Tensor  # (batch, horizon)
    alive: Tensor  # (batch, horizon + 1)
    noise: Noise
    own_actions: Tensor  # (action_size,), False where a fleet's actions are padded beyond this agent's


class RewardScales(NamedTuple):
    """What values are divided by, so that rewards of any size give values of similar size."""

    present: Tensor  # ()
    target: Tensor  # (), the scale that the target values were learned at


@dataclass(frozen=True)
class Constants:
    """What is the same in every update of every agent."""

    h: Hyperparameters
    spec: Spec  # of a fleet, its largest
    bins: Tensor  # (reward_bins,), of the two-hot reward
    dtype: torch.dtype  # in which matrices are multiplied
