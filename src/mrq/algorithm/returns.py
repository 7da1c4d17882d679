"""Multi-step returns over windows that may end inside (paper, section 4.2, value function)."""

import torch
from torch import Tensor


def multi_step_return(rewards: Tensor, alive: Tensor, discount: float) -> tuple[Tensor, Tensor]:
    """Discounted sum of a window's rewards, and the weight of the value bootstrapped behind it.

    rewards: (batch, horizon); alive: (batch, horizon + 1). The terminal step's own reward counts, what lies behind it
    does not, and a window that terminated does not bootstrap.
    """
    horizon = rewards.shape[-1]
    discounts = discount ** torch.arange(horizon, device=rewards.device, dtype=rewards.dtype)
    return (discounts * alive[..., :-1] * rewards).sum(-1), discount**horizon * alive[..., -1]
