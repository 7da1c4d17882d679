"""From the policy's pre-activations to actions (paper, section 4.2): Tanh, or Gumbel-Softmax for discrete ones.

Actions are as the networks have them: entries in [-1, 1], or one-hot. `own` (action_size,) is False where a fleet's
actions are padded: such an entry is never chosen, and in a continuous action it is 0 because its pre-activation and
noise are.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from mrq.algorithms.mrq.hyperparameters import Hyperparameters
from mrq.algorithms.mrq.noise import Noise

DISCRETE_NOISE = 0.5  # a one-hot action spans [0, 1], half of [-1, 1]


def policy_actions(pre: Tensor, noise: Noise, own: Tensor, h: Hyperparameters) -> Tensor:
    """Returns the actions that the policy is trained by: differentiable, and soft where they are discrete."""
    if "policy_gumbel" in noise:
        return _gumbel_softmax(pre, noise["policy_gumbel"], own, h)
    return torch.tanh(pre)


def target_actions(pre: Tensor, noise: Noise, own: Tensor, h: Hyperparameters) -> Tensor:
    """Returns the target policy's actions with clipped noise."""
    perturbation, clip = h.target_policy_noise * noise["target_noise"], h.target_policy_noise_clip
    if "target_gumbel" in noise:
        perturbation = (DISCRETE_NOISE * perturbation).clamp(-DISCRETE_NOISE * clip, DISCRETE_NOISE * clip)
        return _one_hot_argmax(_gumbel_softmax(pre, noise["target_gumbel"], own, h) + perturbation, own)
    return (torch.tanh(pre) + perturbation.clamp(-clip, clip)).clamp(-1, 1)


def exploring_actions(pre: Tensor, noise: Noise, own: Tensor, h: Hyperparameters) -> Tensor:
    """Returns the actions that agents take in training."""
    perturbation = h.exploration_noise * noise["exploration_noise"]
    if "exploration_gumbel" in noise:
        soft = _gumbel_softmax(pre, noise["exploration_gumbel"], own, h)
        return _one_hot_argmax(soft + DISCRETE_NOISE * perturbation, own)
    return (torch.tanh(pre) + perturbation).clamp(-1, 1)


def evaluation_actions(pre: Tensor, noise: Noise, own: Tensor, discrete: bool) -> Tensor:
    """Returns evaluation actions: no exploration noise. Without Gumbel noise, discrete actions are the plain argmax."""
    if discrete:
        return _one_hot_argmax(pre + noise.get("evaluation_gumbel", torch.zeros_like(pre)), own)
    return torch.tanh(pre)


def _gumbel_softmax(logits: Tensor, gumbel: Tensor, own: Tensor, h: Hyperparameters) -> Tensor:
    """Computes the soft, not the straight-through, Gumbel-Softmax."""
    return ((logits + gumbel) / h.gumbel_temperature).masked_fill(~own, -torch.inf).softmax(-1)


def _one_hot_argmax(scores: Tensor, own: Tensor) -> Tensor:
    """Returns 1 at the largest entry of the last axis, 0 elsewhere."""
    return F.one_hot(scores.masked_fill(~own, -torch.inf).argmax(-1), scores.shape[-1]).to(scores.dtype)
