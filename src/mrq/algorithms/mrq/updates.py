"""What one agent computes in an update: pure functions of its networks, its batch and its noise.

Matrices are multiplied in `Constants.dtype`, for gradients too. Everything else is in full precision, and so are the
layers that see an observation or give a value.
"""

from functools import partial

import torch
from torch import Tensor

from mrq.algorithms.augmentation import shift
from mrq.algorithms.layers import rounded
from mrq.algorithms.mrq.actions import evaluation_actions, exploring_actions
from mrq.algorithms.mrq.batch import Batch, Constants, RewardScales
from mrq.algorithms.mrq.hyperparameters import Hyperparameters
from mrq.algorithms.mrq.losses import (
    EncoderTargets,
    dynamics_targets,
    encoder_loss,
    policy_loss,
    value_loss,
    value_target,
)
from mrq.algorithms.mrq.networks import (
    FIRST_LAYER,
    VALUE_HEAD,
    encode_pair,
    encode_state,
    pre_activations,
)
from mrq.algorithms.mrq.noise import Noise
from mrq.algorithms.mrq.unroll import Predictions, unrolled_gradients
from mrq.algorithms.observed import Observed, Unpacked, allowed_actions, observed
from mrq.algorithms.optimiser import Parameters
from mrq.algorithms.trained import Networks
from mrq.interface import Spec


def embed_targets(
    networks: Networks,  # as `dynamics_targets` takes them
    states: Tensor,  # (count, horizon, *state_shape), those after a window's first
    noise: Noise,
    own_actions: Tensor,
    constants: Constants,
) -> Tensor:
    """Returns what the dynamics loss aims at, (count, horizon, state_embedding)."""
    rounded, spec = _rounded_networks(networks, constants.dtype, "encoder", "policy"), constants.spec
    shown = _shown(states, noise, slice(1, None), spec)
    allowed = allowed_actions(states.flatten(0, 1), spec, own_actions)
    targets = dynamics_targets(rounded, shown, allowed, spec, constants.h)
    return targets.view(*states.shape[:2], -1)


def encoder_gradients(
    encoder: Parameters,
    target_policy: Parameters,
    batch: Batch,
    following: Tensor,  # what the dynamics loss aims at, or the states that the encoder itself makes it from
    terminal_weight: Tensor,
    constants: Constants,
) -> tuple[Parameters, Tensor]:
    """Returns the encoder's gradient, and the parts of its loss (3,)."""

    def loss(predictions: Predictions, encoder: Parameters) -> tuple[Tensor, Tensor]:
        embeddings = following
        if not constants.h.target_encoder:
            networks = {"encoder": encoder, "policy": target_policy}
            embeddings = embed_targets(networks, following, batch.noise, batch.own_actions, constants)
        targets = EncoderTargets(embeddings, batch.rewards, batch.alive, terminal_weight)
        return encoder_loss(predictions, targets, constants.bins, constants.h)

    states = _first_states(batch, constants.spec)
    gradients, parts = unrolled_gradients(loss, _rounded(encoder, constants.dtype), states, batch.actions)
    return _rounded(gradients, torch.float32), parts


def value_targets(targets: Networks, batch: Batch, scales: RewardScales, constants: Constants) -> Tensor:
    """Returns what both critics aim at (batch,)."""
    rounded = _rounded_networks(targets, constants.dtype, "encoder", "policy", "value")
    shown = _shown(batch.states[:, 1:], batch.noise, slice(1, 2), constants.spec)
    allowed = allowed_actions(batch.states[:, 1], constants.spec, batch.own_actions)
    return value_target(rounded, shown, allowed, batch, scales, constants.spec, constants.h)


def embed_pairs(encoder: Parameters, batch: Batch, constants: Constants) -> tuple[Tensor, Tensor]:
    """Returns zs and zsa of the first states and the actions taken there."""
    encoder = _rounded(encoder, constants.dtype)
    zs = encode_state(encoder, _first_states(batch, constants.spec))
    return zs, encode_pair(encoder, zs, batch.actions[:, 0])


def value_gradients(
    value: Parameters, zsa: Tensor, target: Tensor, constants: Constants
) -> tuple[Parameters, Tensor, Tensor]:
    """Returns the clipped gradient, the TD errors (batch,), and the loss and the mean value (2,)."""
    differentiated = torch.func.grad_and_value(partial(value_loss, h=constants.h), has_aux=True)
    gradients, (loss, (td_errors, value_mean)) = differentiated(_rounded(value, constants.dtype), zsa, target)
    return _clipped(_rounded(gradients, torch.float32), constants.h), td_errors, torch.stack([loss, value_mean])


def end_to_end_gradients(
    value: Parameters, encoder: Parameters, batch: Batch, target: Tensor, constants: Constants
) -> tuple[Parameters, Parameters, Tensor, Tensor]:
    """Returns the value loss's gradients, the value's (clipped) and the encoder's; the rest as `value_gradients`."""

    def loss(value: Parameters, encoder: Parameters) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        _, zsa = embed_pairs(encoder, batch, constants)
        return value_loss(_rounded(value, constants.dtype), zsa, target, constants.h)

    differentiated = torch.func.grad_and_value(loss, (0, 1), has_aux=True)
    (of_value, of_encoder), (value_of_loss, (td_errors, value_mean)) = differentiated(value, encoder)
    return _clipped(of_value, constants.h), of_encoder, td_errors, torch.stack([value_of_loss, value_mean])


def policy_gradients(networks: Networks, zs: Tensor, batch: Batch, constants: Constants) -> tuple[Parameters, Tensor]:
    """Returns the policy's gradient, and its loss (1,). zs is of the first states."""
    rounded = _rounded_networks(networks, constants.dtype, "encoder", "policy", "value")
    differentiated = torch.func.grad_and_value(partial(policy_loss, spec=constants.spec, h=constants.h))
    allowed = allowed_actions(batch.states[:, 0], constants.spec, batch.own_actions)
    gradients, loss = differentiated(rounded["policy"], rounded, zs, allowed, batch)
    return _rounded(gradients, torch.float32), loss[None]


def explore(networks: Networks, states: Tensor, noise: Noise, own_actions: Tensor, constants: Constants) -> Tensor:
    """Returns training actions (count, action_size) for states (count, *state_shape)."""
    allowed = allowed_actions(states, constants.spec, own_actions)
    return exploring_actions(_policy_outputs(networks, states, constants), noise, allowed, constants.spec, constants.h)


def act(
    networks: Networks, states: Tensor | Unpacked, noise: Noise, own_actions: Tensor, constants: Constants
) -> Tensor:
    """Returns evaluation actions (count, action_size) for states (count, *state_shape)."""
    allowed = allowed_actions(states, constants.spec, own_actions)
    return evaluation_actions(_policy_outputs(networks, states, constants), noise, allowed, constants.spec)


def _policy_outputs(networks: Networks, states: Tensor | Unpacked, constants: Constants) -> Tensor:
    rounded = _rounded_networks(networks, constants.dtype, "encoder", "policy")
    return pre_activations(rounded["policy"], encode_state(rounded["encoder"], observed(states, constants.spec)))


def _first_states(batch: Batch, spec: Spec) -> Observed:
    return _shown(batch.states[:, :1], batch.noise, slice(0, 1), spec)


def _shown(states: Tensor, noise: Noise, which: slice, spec: Spec) -> Observed:
    """Returns what states `which` of windows (batch, chosen, *state_shape) show; images are shifted by own offsets."""
    parts = observed(states.flatten(0, 1), spec)
    if not parts.images:
        return parts
    offsets = noise["shift"][:, which].flatten(0, 1)
    return parts._replace(images=tuple(shift(image, offsets) for image in parts.images))


def _clipped(gradients: Parameters, h: Hyperparameters) -> Parameters:
    norm = torch.stack([gradient.square().sum() for gradient in gradients.values()]).sum().sqrt()
    scale = (h.value_gradient_clip / (norm + 1e-6)).clamp(max=1)
    return {name: gradient * scale for name, gradient in gradients.items()}


def _rounded_networks(networks: Networks, dtype: torch.dtype, *names: str) -> Networks:
    return {name: _rounded(networks[name], dtype) for name in names}


def _rounded(parameters: Parameters, dtype: torch.dtype) -> Parameters:
    """Rounds all but two cheap layers, where bf16 would round an angle of 8 to 1/16, and a value of 100 to 1/2."""
    return rounded(parameters, dtype, full=(FIRST_LAYER, VALUE_HEAD))
