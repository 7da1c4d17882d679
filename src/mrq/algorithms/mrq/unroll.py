"""The model unrolled over a window of actions, and its gradient (paper, section 4.2, encoder).

Deviation: two identities make it cheap; except for rounding they change nothing. After g's last hidden layer everything
is linear, so g's last layer and m are multiplied once for the whole unroll. And the gradient of a weight that every
step multiplies by is one product over all steps: the steps see the weights as constants, zeros are added to their
results, and the gradients of these zeros are the product's other factor.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from mrq.algorithms.layers import linear
from mrq.algorithms.mrq.networks import action_features, encode_pair, encode_state, normed, predict
from mrq.algorithms.observed import Observed
from mrq.algorithms.optimiser import Parameters

REPEATED = ("g.linear0.weight", "g.linear1.weight", "g.linear2.weight", "m.weight")


class Predictions(NamedTuple):
    """What the model predicts at every step, (horizon, batch, …)."""

    terminals: Tensor
    zs: Tensor
    reward_logits: Tensor


class Weights(NamedTuple):
    """The weights that every step multiplies by."""

    state: Tensor  # (hidden, state_embedding), the part of g's first layer that sees zs
    hidden: Tensor  # (hidden, hidden)
    predictor: Tensor  # (1 + state_embedding + bins, hidden), m after g's last layer


def unrolled_gradients(
    loss: Callable[[Predictions, Parameters], tuple[Tensor, Tensor]],  # of what the encoder predicts, and the encoder
    encoder: Parameters,
    first_states: Observed,
    actions: Tensor,  # (batch, horizon, action_size)
) -> tuple[Parameters, Tensor]:
    """Returns the gradient of one agent's encoder, and the details that `loss` adds."""
    if "m.weight" not in encoder:
        return _plain_gradients(loss, encoder, first_states, actions)
    zs_size = encoder["g.linear0.weight"].shape[1] - encoder["g.action.weight"].shape[0]

    def weights_of(linear0: Tensor, linear1: Tensor, linear2: Tensor, m: Tensor) -> Weights:
        return Weights(linear0[:, :zs_size], linear1, m @ linear2)

    def unrolled(
        encoder: Parameters, predictor: Tensor, zeros: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[list[Tensor], Tensor]]:
        predictions, inputs = _unroll(encoder, weights._replace(predictor=predictor), zeros, first_states, actions)
        value, details = loss(predictions, encoder)
        return value, (inputs, details)

    vjp: Any = torch.func.vjp  # its annotation knows one form of several
    weights, pull_back = vjp(weights_of, *(encoder[name] for name in REPEATED))
    shape = (actions.shape[1], len(actions))
    widths = (len(weights.state), len(weights.hidden), zs_size)
    zeros = tuple(actions.new_zeros(*shape, width) for width in widths)
    differentiated = torch.func.grad(unrolled, (0, 1, 2), has_aux=True)
    (gradients, of_predictor, of_zeros), (inputs, details) = differentiated(encoder, weights.predictor, zeros)
    dtype = weights.hidden.dtype
    products = [g.flatten(0, 1).to(dtype).T @ x.flatten(0, 1).to(dtype) for g, x in zip(of_zeros, inputs, strict=True)]
    reward_rows = len(weights.predictor) - 1 - zs_size
    of_predictor = of_predictor + F.pad(products[2], (0, 0, 1, reward_rows))
    for name, gradient in zip(REPEATED, pull_back(Weights(products[0], products[1], of_predictor)), strict=True):
        gradients[name] = gradients[name] + gradient
    return gradients, details


def _plain_gradients(
    loss: Callable[[Predictions, Parameters], tuple[Tensor, Tensor]],
    encoder: Parameters,
    first_states: Observed,
    actions: Tensor,
) -> tuple[Parameters, Tensor]:
    """Computes the same where m is not linear, so that no product can be saved."""

    def unrolled(encoder: Parameters) -> tuple[Tensor, Tensor]:
        zs, steps = encode_state(encoder, first_states), []
        for t in range(actions.shape[1]):
            steps.append(predict(encoder, encode_pair(encoder, zs, actions[:, t])))
            zs = steps[-1][1]
        return loss(Predictions(*(torch.stack(tensors) for tensors in zip(*steps, strict=True))), encoder)

    gradients, details = torch.func.grad(unrolled, has_aux=True)(encoder)
    return gradients, details


def _unroll(
    encoder: Parameters, weights: Weights, zeros: tuple[Tensor, ...], first_states: Observed, actions: Tensor
) -> tuple[Predictions, list[Tensor]]:
    """Returns predictions, and the inputs (horizon, batch, …) of the three products that every step makes."""
    zs = encode_state(encoder, first_states)
    features = action_features(encoder, actions)
    bias = encoder["m.weight"] @ encoder["g.linear2.bias"] + encoder["m.bias"]
    next_zs = slice(1, 1 + zs.shape[-1])  # the rows that predict it
    by_state, by_hidden, by_predictor = (weight.detach() for weight in weights)
    steps = []
    for t in range(actions.shape[1]):
        first = normed(linear(zs, by_state) + features[:, t] + zeros[0][t], F.elu)
        second = normed(linear(first, by_hidden, encoder["g.linear1.bias"]) + zeros[1][t], F.elu)
        following = linear(second, by_predictor[next_zs], bias[next_zs]) + zeros[2][t]
        steps.append((zs, first, second, following))
        zs = following
    *inputs, predicted = (torch.stack(tensors) for tensors in zip(*steps, strict=True))
    others = linear(inputs[2], *(torch.cat([x[:1], x[next_zs.stop :]]) for x in (weights.predictor, bias)))
    return Predictions(others[..., 0], predicted, others[..., 1:]), inputs
