"""What one agent computes in an update: pure functions of its parameters, its windows and its noise.

`dtype` is the precision in which matrices are multiplied, for gradients too; all else is in full.
"""

from functools import partial

import torch
from torch import Tensor

from mrq.algorithm.actions import exploring_actions
from mrq.algorithm.augmentation import shift
from mrq.algorithm.losses import EncoderTargets, encoder_loss, policy_loss, value_loss, value_target
from mrq.algorithm.networks import VALUE_HEAD, Parameters, encode_pair, encode_state, pre_activations
from mrq.algorithm.noise import Noise
from mrq.algorithm.unroll import unrolled_gradients
from mrq.hyperparameters import Hyperparameters


def embed_targets(encoder: Parameters, states: Tensor, noise: Noise, dtype: torch.dtype) -> Tensor:
    """zs of the states behind a window's first, (count, horizon, *state_shape), by the target encoder."""
    flat = _shifted(states, noise, slice(1, None)).flatten(0, 1)
    return encode_state(_rounded(encoder, dtype), flat).view(*states.shape[:2], -1)


def encoder_gradients(
    encoder: Parameters,
    first_states: Tensor,  # (batch, *state_shape)
    noise: Noise,
    zs_targets: Tensor,
    actions: Tensor,
    rewards: Tensor,
    alive: Tensor,
    terminal_weight: Tensor,
    bins: Tensor,
    h: Hyperparameters,
    dtype: torch.dtype,
) -> tuple[Parameters, Tensor]:
    """And the loss in its parts (3,)."""
    targets = EncoderTargets(zs_targets, rewards, alive, terminal_weight)
    loss = partial(encoder_loss, targets=targets, bins=bins, h=h)
    states = _shifted(first_states[:, None], noise, slice(0, 1))[:, 0]
    gradients, parts = unrolled_gradients(loss, _rounded(encoder, dtype), states, actions)
    return _rounded(gradients, torch.float32), parts


def value_targets(
    encoder: Parameters,  # all three: target networks
    policy: Parameters,
    value: Parameters,
    last_states: Tensor,  # (batch, *state_shape)
    rewards: Tensor,
    alive: Tensor,
    noise: Noise,
    own_actions: Tensor,
    reward_scale: Tensor,
    target_reward_scale: Tensor,
    h: Hyperparameters,
    dtype: torch.dtype,
) -> Tensor:
    """(batch,)"""
    encoder, policy, value = (_rounded(network, dtype) for network in (encoder, policy, value))
    states = _shifted(last_states[:, None], noise, slice(1, 2))[:, 0]
    scales = (reward_scale, target_reward_scale)
    return value_target(encoder, policy, value, states, rewards, alive, noise, own_actions, *scales, h)


def embed_pairs(
    encoder: Parameters, first_states: Tensor, actions: Tensor, noise: Noise, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """zs and zsa of what was done."""
    encoder = _rounded(encoder, dtype)
    zs = encode_state(encoder, _shifted(first_states[:, None], noise, slice(0, 1))[:, 0])
    return zs, encode_pair(encoder, zs, actions)


def value_gradients(
    value: Parameters, zsa: Tensor, target: Tensor, h: Hyperparameters, dtype: torch.dtype
) -> tuple[Parameters, Tensor, Tensor]:
    """Clipped; and the TD errors (batch,), and the loss and the mean value (2,)."""
    differentiated = torch.func.grad_and_value(value_loss, has_aux=True)
    gradients, (loss, (td_errors, value_mean)) = differentiated(_rounded(value, dtype), zsa, target)
    gradients = _rounded(gradients, torch.float32)
    norm = torch.stack([gradient.square().sum() for gradient in gradients.values()]).sum().sqrt()
    scale = (h.value_gradient_clip / (norm + 1e-6)).clamp(max=1)
    clipped = {name: gradient * scale for name, gradient in gradients.items()}
    return clipped, td_errors, torch.stack([loss, value_mean])


def policy_gradients(
    policy: Parameters,
    encoder: Parameters,
    value: Parameters,
    zs: Tensor,
    noise: Noise,
    own_actions: Tensor,
    h: Hyperparameters,
    dtype: torch.dtype,
) -> tuple[Parameters, Tensor]:
    """And the loss (1,)."""
    policy, encoder, value = (_rounded(network, dtype) for network in (policy, encoder, value))
    differentiated = torch.func.grad_and_value(partial(policy_loss, h=h))
    gradients, loss = differentiated(policy, encoder, value, zs, noise, own_actions)
    return _rounded(gradients, torch.float32), loss[None]


def explore(
    encoder: Parameters,
    policy: Parameters,
    states: Tensor,  # (count, *state_shape)
    noise: Noise,
    own_actions: Tensor,
    h: Hyperparameters,
    dtype: torch.dtype,
) -> Tensor:
    """(count, action_size)"""
    return exploring_actions(policy_outputs(encoder, policy, states, dtype), noise, own_actions, h)


def policy_outputs(encoder: Parameters, policy: Parameters, states: Tensor, dtype: torch.dtype) -> Tensor:
    """The pre-activations (count, action_size) of states (count, *state_shape)."""
    return pre_activations(_rounded(policy, dtype), encode_state(_rounded(encoder, dtype), states))


def _shifted(states: Tensor, noise: Noise, which: slice) -> Tensor:
    """Image states (batch, chosen, *state_shape), a window's states `which`, each shifted by its own offset."""
    if "shift" not in noise:
        return states
    return shift(states.flatten(0, 1), noise["shift"][:, which].flatten(0, 1)).view(states.shape)


def _rounded(parameters: Parameters, dtype: torch.dtype) -> Parameters:
    """All but the layer that gives a value: it costs next to nothing, and bf16 would round a value of 100 to halves."""
    return {n: tensor if n.startswith(VALUE_HEAD) else tensor.to(dtype) for n, tensor in parameters.items()}
