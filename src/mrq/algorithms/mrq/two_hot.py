"""Rewards as two-hot distributions over symexp-spaced bins (paper, section 4.2, reward loss)."""

import torch
from torch import Tensor


def bin_locations(count: int, limit: float) -> Tensor:
    """Returns symexp of `count` points evenly spaced over [-limit, limit]."""
    points = torch.linspace(-limit, limit, count, dtype=torch.float64)
    return (points.sign() * points.abs().expm1()).float()


def two_hot(rewards: Tensor, bins: Tensor) -> Tensor:
    """Encodes rewards (…) as (…, bins): each splits linearly between the two bins beside it.

    Beyond all bins, the edge bin has it. Each bin's weight is a hat: 1 at the bin, falling to 0 at its neighbours.
    """
    rewards = rewards.clamp(bins[0], bins[-1]).unsqueeze(-1)
    widths = bins.diff()
    rising = (rewards - bins[:-1]) / widths  # from each bin to the next
    falling = 1 - rising
    one = torch.ones_like(rewards)
    return torch.minimum(torch.cat([one, rising], -1), torch.cat([falling, one], -1)).clamp(min=0)


def cross_entropy(logits: Tensor, distribution: Tensor) -> Tensor:
    """Returns the cross-entropy of predicted logits and a distribution over the last axis."""
    return -(distribution * logits.log_softmax(-1)).sum(-1)
