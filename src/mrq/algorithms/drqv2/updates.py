"""What one agent computes in an update: pure functions of its networks and its batch.

Matrices are multiplied in `Constants.dtype`, for gradients too. Everything else is in full precision, and so are the
layers that give a value or an action, and LayerNorm.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from mrq.algorithms.augmentation import shift
from mrq.algorithms.drqv2.batch import Batch
from mrq.algorithms.drqv2.hyperparameters import Hyperparameters
from mrq.algorithms.drqv2.losses import actor_loss, critic_loss, critic_target, exploring_actions
from mrq.algorithms.drqv2.networks import HEAD, NORM, encode, mean_actions
from mrq.algorithms.layers import rounded
from mrq.algorithms.optimiser import Parameters
from mrq.algorithms.trained import Networks


@dataclass(frozen=True)
class Constants:
    """What is the same in every update of every agent."""

    h: Hyperparameters
    dtype: torch.dtype  # in which matrices are multiplied


def critic_gradients(
    networks: Networks, target_critic: Parameters, batch: Batch, constants: Constants
) -> tuple[Parameters, Parameters, Tensor, Tensor]:
    """Returns the gradients of encoder and critic, the encoded first states, and the loss and the mean value (2,)."""
    dtype = constants.dtype
    first, last = (
        shift(batch.states.flatten(0, 1), batch.noise["shift"].flatten(0, 1)).view(batch.states.shape).unbind(1)
    )
    actor = _rounded(networks["actor"], dtype)
    following = encode(_rounded(networks["encoder"], dtype), last)
    target = critic_target(actor, _rounded(target_critic, dtype), following, batch, constants.h)

    def loss(encoder: Parameters, critic: Parameters) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        encoded = encode(_rounded(encoder, dtype), first)
        loss, value_mean = critic_loss(_rounded(critic, dtype), encoded, batch.actions[:, 0], target)
        return loss, (encoded, value_mean)

    differentiated = torch.func.grad_and_value(loss, (0, 1), has_aux=True)
    (of_encoder, of_critic), (value, (encoded, value_mean)) = differentiated(networks["encoder"], networks["critic"])
    return of_encoder, of_critic, encoded, torch.stack([value, value_mean])


def actor_gradients(
    networks: Networks, encoded: Tensor, batch: Batch, constants: Constants
) -> tuple[Parameters, Tensor]:
    """Returns the actor's gradient, and its loss (1,). No gradient of it reaches the encoder."""
    critic = _rounded(networks["critic"], constants.dtype)

    def loss(actor: Parameters) -> Tensor:
        return actor_loss(_rounded(actor, constants.dtype), critic, encoded, batch, constants.h)

    gradients, value = torch.func.grad_and_value(loss)(networks["actor"])
    return gradients, value[None]


def explore(networks: Networks, states: Tensor, noise: Tensor, std: Tensor, constants: Constants) -> Tensor:
    """Returns training actions (count, action_size) for states (count, *state_shape)."""
    return exploring_actions(act(networks, states, constants), noise, std)


def act(networks: Networks, states: Tensor, constants: Constants) -> Tensor:
    """Returns actions without noise (count, action_size) for states (count, *state_shape)."""
    encoded = encode(_rounded(networks["encoder"], constants.dtype), states)
    return mean_actions(_rounded(networks["actor"], constants.dtype), encoded)


def _rounded(parameters: Parameters, dtype: torch.dtype) -> Parameters:
    """Rounds all but LayerNorm's parameters and the last layers: bf16 would round a value of 100 to 1/2."""
    return rounded(parameters, dtype, (NORM, HEAD))
