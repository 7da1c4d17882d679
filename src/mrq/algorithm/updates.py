"""What one agent computes in an update: pure functions of its parameters, its windows and its noise.

`dtype` is the precision in which matrices are multiplied, for gradients too; all else is in full, and so are the layers
that see an observation and give a value.
"""

from functools import partial

import torch
from torch import Tensor

from mrq.algorithm.actions import exploring_actions
from mrq.algorithm.augmentation import shift
from mrq.algorithm.losses import EncoderTargets, dynamics_targets, encoder_loss, policy_loss, value_loss, value_target
from mrq.algorithm.networks import FIRST_LAYER, VALUE_HEAD, Parameters, encode_pair, encode_state, pre_activations
from mrq.algorithm.noise import Noise
from mrq.algorithm.unroll import Predictions, unrolled_gradients
from mrq.hyperparameters import Hyperparameters


def embed_targets(
    encoder: Parameters,  # both: target networks
    policy: Parameters,
    states: Tensor,  # (count, horizon, *state_shape), those behind a window's first
    noise: Noise,
    own_actions: Tensor,
    discrete: bool,
    h: Hyperparameters,
    dtype: torch.dtype,
) -> Tensor:
    """What the dynamics loss aims at, (count, horizon, state_embedding)."""
    flat = _shifted(states, noise, slice(1, None)).flatten(0, 1)
    encoder, policy = _rounded(encoder, dtype), _rounded(policy, dtype)
    return dynamics_targets(encoder, policy, flat, own_actions, discrete, h).view(*states.shape[:2], -1)


def encoder_gradients(
    encoder: Parameters,
    target_policy: Parameters,
    first_states: Tensor,  # (batch, *state_shape)
    noise: Noise,
    following: Tensor,  # what the dynamics loss aims at, or the states that the encoder itself makes it from
    own_actions: Tensor,
    actions: Tensor,
    rewards: Tensor,
    alive: Tensor,
    terminal_weight: Tensor,
    bins: Tensor,
    discrete: bool,
    h: Hyperparameters,
    dtype: torch.dtype,
) -> tuple[Parameters, Tensor]:
    """And the loss in its parts (3,)."""

    def loss(predictions: Predictions, encoder: Parameters) -> tuple[Tensor, Tensor]:
        embeddings = following
        if not h.target_encoder:
            embeddings = embed_targets(encoder, target_policy, following, noise, own_actions, discrete, h, dtype)
        targets = EncoderTargets(embeddings, rewards, alive, terminal_weight)
        return encoder_loss(predictions, targets, bins, h)

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
    differentiated = torch.func.grad_and_value(partial(value_loss, h=h), has_aux=True)
    gradients, (loss, (td_errors, value_mean)) = differentiated(_rounded(value, dtype), zsa, target)
    return _clipped(_rounded(gradients, torch.float32), h), td_errors, torch.stack([loss, value_mean])


def end_to_end_gradients(
    value: Parameters,
    encoder: Parameters,
    first_states: Tensor,  # (batch, *state_shape)
    actions: Tensor,
    noise: Noise,
    target: Tensor,
    h: Hyperparameters,
    dtype: torch.dtype,
) -> tuple[Parameters, Parameters, Tensor, Tensor]:
    """Of the value loss, for the value, clipped, and for the encoder; the rest as `value_gradients` has it."""

    def loss(value: Parameters, encoder: Parameters) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        _, zsa = embed_pairs(encoder, first_states, actions, noise, dtype)
        return value_loss(_rounded(value, dtype), zsa, target, h)

    differentiated = torch.func.grad_and_value(loss, (0, 1), has_aux=True)
    (of_value, of_encoder), (value_of_loss, (td_errors, value_mean)) = differentiated(value, encoder)
    return _clipped(of_value, h), of_encoder, td_errors, torch.stack([value_of_loss, value_mean])


def _clipped(gradients: Parameters, h: Hyperparameters) -> Parameters:
    norm = torch.stack([gradient.square().sum() for gradient in gradients.values()]).sum().sqrt()
    scale = (h.value_gradient_clip / (norm + 1e-6)).clamp(max=1)
    return {name: gradient * scale for name, gradient in gradients.items()}


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
    """All but what costs next to nothing, where bf16 would round an angle of 8 to 1/16, and a value of 100 to 1/2."""
    full = (FIRST_LAYER, VALUE_HEAD)
    return {name: tensor if name.startswith(full) else tensor.to(dtype) for name, tensor in parameters.items()}
