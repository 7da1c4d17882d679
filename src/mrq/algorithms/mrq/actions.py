"""From the policy's pre-activations to actions (paper, section 4.2): Tanh, or Gumbel-Softmax for discrete ones.

Actions are as the networks have them: entries in [-1, 1], then every choice one-hot. `allowed` (action_size,) or
(batch, action_size) is False where an option must not be chosen, or a fleet's actions are padded: such an option is
never chosen, and in a continuous action such an entry is 0 because its pre-activation and noise are.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from mrq.algorithms.mrq.hyperparameters import Hyperparameters
from mrq.algorithms.mrq.noise import Noise
from mrq.interface import Spec

DISCRETE_NOISE = 0.5  # a one-hot action spans [0, 1], half of [-1, 1]


def policy_actions(pre: Tensor, noise: Noise, allowed: Tensor, spec: Spec, h: Hyperparameters) -> Tensor:
    """Returns the actions that the policy is trained by: differentiable, and soft where they are discrete."""
    return _joined(
        spec,
        lambda own: torch.tanh(pre[..., own]),
        lambda own: _gumbel_softmax(pre[..., own], noise["policy_gumbel"][..., own], allowed[..., own], h),
    )


def target_actions(pre: Tensor, noise: Noise, allowed: Tensor, spec: Spec, h: Hyperparameters) -> Tensor:
    """Returns the target policy's actions with clipped noise."""
    perturbation, clip = h.target_policy_noise * noise["target_noise"], h.target_policy_noise_clip

    def number(own: slice) -> Tensor:
        return (torch.tanh(pre[..., own]) + perturbation[..., own].clamp(-clip, clip)).clamp(-1, 1)

    def choice(own: slice) -> Tensor:
        soft = _gumbel_softmax(pre[..., own], noise["target_gumbel"][..., own], allowed[..., own], h)
        clipped = (DISCRETE_NOISE * perturbation[..., own]).clamp(-DISCRETE_NOISE * clip, DISCRETE_NOISE * clip)
        return _one_hot_argmax(soft + clipped, allowed[..., own])

    return _joined(spec, number, choice)


def exploring_actions(pre: Tensor, noise: Noise, allowed: Tensor, spec: Spec, h: Hyperparameters) -> Tensor:
    """Returns the actions that agents take in training."""
    perturbation = h.exploration_noise * noise["exploration_noise"]

    def choice(own: slice) -> Tensor:
        soft = _gumbel_softmax(pre[..., own], noise["exploration_gumbel"][..., own], allowed[..., own], h)
        return _one_hot_argmax(soft + DISCRETE_NOISE * perturbation[..., own], allowed[..., own])

    return _joined(spec, lambda own: (torch.tanh(pre[..., own]) + perturbation[..., own]).clamp(-1, 1), choice)


def evaluation_actions(pre: Tensor, noise: Noise, allowed: Tensor, spec: Spec) -> Tensor:
    """Returns evaluation actions: no exploration noise. Without Gumbel noise, discrete actions are the plain argmax."""
    scores = pre + noise["evaluation_gumbel"] if "evaluation_gumbel" in noise else pre
    return _joined(
        spec,
        lambda own: torch.tanh(pre[..., own]),
        lambda own: _one_hot_argmax(scores[..., own], allowed[..., own]),
    )


def random_actions(noise: Noise, allowed: Tensor, spec: Spec) -> Tensor:
    """Returns random actions among those that are allowed."""
    return _joined(
        spec,
        lambda own: noise["random_actions"][..., own],
        lambda own: _one_hot_argmax(noise["exploration_gumbel"][..., own], allowed[..., own]),
    )


def _joined(spec: Spec, number: Callable[[slice], Tensor], choice: Callable[[slice], Tensor]) -> Tensor:
    """Joins what `number` computes of the continuous entries with what `choice` computes of every choice's options."""
    parts = [number(slice(0, spec.continuous))] if spec.continuous else []
    start = spec.continuous
    for options in spec.choices:
        parts.append(choice(slice(start, start + options)))
        start += options
    return parts[0] if len(parts) == 1 else torch.cat(parts, -1)


def _gumbel_softmax(logits: Tensor, gumbel: Tensor, allowed: Tensor, h: Hyperparameters) -> Tensor:
    """Computes the soft, not the straight-through, Gumbel-Softmax."""
    return ((logits + gumbel) / h.gumbel_temperature).masked_fill(~allowed, -torch.inf).softmax(-1)


def _one_hot_argmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Returns 1 at the largest entry of the last axis, 0 elsewhere."""
    return F.one_hot(scores.masked_fill(~allowed, -torch.inf).argmax(-1), scores.shape[-1]).to(scores.dtype)
