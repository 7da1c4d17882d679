"""From the policy's pre-activations to actions (paper, section 4.2): Tanh, or Gumbel-Softmax for discrete ones.

Actions are in the network's terms: [-1, 1] an entry, or one-hot.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from mrq.algorithm.noise import Noise
from mrq.hyperparameters import Hyperparameters

DISCRETE_NOISE = 0.5  # a one-hot action spans [0, 1], half of [-1, 1]


def policy_actions(pre: Tensor, noise: Noise, h: Hyperparameters) -> Tensor:
    """The actions the policy is trained by: differentiable, and soft where they are discrete."""
    if "policy_gumbel" in noise:
        return _gumbel_softmax(pre, noise["policy_gumbel"], h)
    return torch.tanh(pre)


def target_actions(pre: Tensor, noise: Noise, h: Hyperparameters) -> Tensor:
    """The target policy's actions, under clipped noise."""
    perturbation, clip = h.target_policy_noise * noise["target_noise"], h.target_policy_noise_clip
    if "target_gumbel" in noise:
        perturbation = (DISCRETE_NOISE * perturbation).clamp(-DISCRETE_NOISE * clip, DISCRETE_NOISE * clip)
        return _one_hot_argmax(_gumbel_softmax(pre, noise["target_gumbel"], h) + perturbation)
    return (torch.tanh(pre) + perturbation.clamp(-clip, clip)).clamp(-1, 1)


def exploring_actions(pre: Tensor, noise: Noise, h: Hyperparameters) -> Tensor:
    """What training acts by."""
    perturbation = h.exploration_noise * noise["exploration_noise"]
    if "exploration_gumbel" in noise:
        return _one_hot_argmax(_gumbel_softmax(pre, noise["exploration_gumbel"], h) + DISCRETE_NOISE * perturbation)
    return (torch.tanh(pre) + perturbation).clamp(-1, 1)


def evaluation_actions(pre: Tensor, noise: Noise, discrete: bool) -> Tensor:
    """What evaluation acts by: no exploration noise. Without Gumbel noise, discrete actions are the plain argmax."""
    if discrete:
        return _one_hot_argmax(pre + noise.get("evaluation_gumbel", torch.zeros_like(pre)))
    return torch.tanh(pre)


def _gumbel_softmax(logits: Tensor, gumbel: Tensor, h: Hyperparameters) -> Tensor:
    """Soft, not straight-through."""
    return ((logits + gumbel) / h.gumbel_temperature).softmax(-1)


def _one_hot_argmax(scores: Tensor) -> Tensor:
    """1 at the largest entry of the last axis, 0 elsewhere."""
    return F.one_hot(scores.argmax(-1), scores.shape[-1]).to(scores.dtype)
