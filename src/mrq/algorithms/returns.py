"""Multi-step returns over windows that may end inside (paper, section 4.2, value function)."""

import torch
from torch import Tensor


def multi_step_return(rewards: Tensor, alive: Tensor, discount: float) -> tuple[Tensor, Tensor]:
    """Returns the discounted sum of a window's rewards, and the weight of the value bootstrapped after it.

    rewards: (batch, horizon); alive: (batch, horizon + 1). The terminal step's own reward counts, later ones do not,
    and a window that terminated does not bootstrap.
    """
    horizon = rewards.shape[-1]
    discounts = discount ** torch.arange(horizon, device=rewards.device, dtype=rewards.dtype)
    return (discounts * alive[..., :-1] * rewards).sum(-1), discount**horizon * alive[..., -1]
