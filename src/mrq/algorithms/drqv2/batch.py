"""What an update of one agent learns from: its mini-batch, and the noise that the update uses."""

from typing import NamedTuple

from torch import Tensor

from mrq.algorithms.drqv2.noise import Noise


class Batch(NamedTuple):
    """An agent's mini-batch of windows, with its noise."""

    states: Tensor  # (batch, 2, *state_shape), the first and the last of each window
    actions: Tensor  # (batch, horizon, action_size)
    rewards: Tensor  # (batch, horizon)
    alive: Tensor  # (batch, horizon + 1)
    noise: Noise
    std: Tensor  # (), of the noise on actions
