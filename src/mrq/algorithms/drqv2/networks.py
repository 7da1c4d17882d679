"""The networks of DrQ-v2, as functions of one agent's parameters.

encoder   four convolutions; the critic and the actor share what they give
trunk     a linear layer to a few features, LayerNorm and Tanh; the critic and the actor have one each
critic    a trunk, and two values of its features and an action
actor     a trunk, and the mean action of its features
"""

import math

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from mrq.algorithms.drqv2.hyperparameters import Hyperparameters
from mrq.algorithms.layers import linear
from mrq.algorithms.optimiser import Parameters
from mrq.algorithms.trained import Networks
from mrq.interface import Spec

CRITICS = 2
CHANNELS = 32
KERNEL = 3
STRIDES = (2, 1, 1, 1)
TRUNK, NORM, HEAD = "trunk.", "trunk.norm", "head"


def initial_networks(generator: np.random.Generator, spec: Spec, h: Hyperparameters) -> Networks:
    """Draws the parameters of an agent's three networks: encoder, critic and actor."""
    return {
        "encoder": _initial_encoder(generator, spec),
        "critic": _initial_critic(generator, spec, h),
        "actor": _initial_actor(generator, spec, h),
    }


def encoded_size(spec: Spec) -> int:
    """Returns how many numbers the encoder makes of a state: 39,200 of 84x84 images."""
    sides = list(spec.frame_shape[1:])
    for stride in STRIDES:
        sides = [(side - KERNEL) // stride + 1 for side in sides]
    return CHANNELS * math.prod(sides)


def encode(encoder: Parameters, states: Tensor) -> Tensor:
    """Encodes states (batch, *state_shape) as (batch, encoded_size)."""
    x = _in_eights(states / 255.0 - 0.5, axis=1).to(memory_format=torch.channels_last)  # as GPUs convolve best
    for index, stride in enumerate(STRIDES):
        weight, bias = (encoder[f"convolution{index}.{kind}"] for kind in ("weight", "bias"))
        x = F.relu(F.conv2d(x.to(weight.dtype), _in_eights(weight, axis=1), bias, stride=stride))
    return x.permute(0, 2, 3, 1).flatten(1)  # in the order in which they lie in memory


def values(critic: Parameters, encoded: Tensor, actions: Tensor) -> Tensor:
    """Returns both values (critics, batch) of encoded states (batch, encoded_size) and actions."""
    pairs = torch.cat([_features(critic, encoded), actions], -1)

    def value(parameters: Parameters) -> Tensor:
        return _perceptron(parameters, pairs).squeeze(-1)

    return torch.vmap(value)({name: tensor for name, tensor in critic.items() if not name.startswith(TRUNK)})


def mean_actions(actor: Parameters, encoded: Tensor) -> Tensor:
    """Returns the actor's actions without noise (batch, action_size) in encoded states (batch, encoded_size)."""
    return torch.tanh(_perceptron(actor, _features(actor, encoded)))


def _in_eights(x: Tensor, axis: int) -> Tensor:
    """Pads an axis with zeros to a multiple of 8, because a GPU then multiplies bf16 faster."""
    return F.pad(x, (0, 0) * (x.ndim - 1 - axis) + (0, -x.shape[axis] % 8)) if x.is_cuda else x


def _features(network: Parameters, encoded: Tensor) -> Tensor:
    """Computes a network's trunk: features (batch, feature_size)."""
    weight, bias = (_in_eights(network[f"trunk.linear.{kind}"], axis=0) for kind in ("weight", "bias"))
    x = linear(encoded, weight, bias)
    weight, bias = (network[f"{NORM}.{kind}"] for kind in ("weight", "bias"))
    x = x[:, : len(weight)]
    return torch.tanh(F.layer_norm(x, x.shape[-1:], weight, bias, eps=1e-5))


def _perceptron(network: Parameters, x: Tensor) -> Tensor:
    for index in range(2):
        x = F.relu(_layer(network, f"linear{index}", x))
    return _layer(network, HEAD, x)


def _layer(parameters: Parameters, name: str, x: Tensor) -> Tensor:
    return linear(x, parameters[f"{name}.weight"], parameters[f"{name}.bias"])


def _initial_encoder(generator: np.random.Generator, spec: Spec) -> Parameters:
    encoder: Parameters = {}
    channels = spec.state_shape[0]
    for index in range(len(STRIDES)):
        shape = (CHANNELS, channels, KERNEL, KERNEL)
        encoder |= _initial_layer(generator, f"convolution{index}", shape, gain=math.sqrt(2))
        channels = CHANNELS
    return encoder


def _initial_critic(generator: np.random.Generator, spec: Spec, h: Hyperparameters) -> Parameters:
    """Draws a trunk, and both critics' layers stacked on a leading axis."""
    trunk = _initial_trunk(generator, spec, h)
    critics = [_initial_perceptron(generator, h.feature_size + spec.action_size, 1, h) for _ in range(CRITICS)]
    return trunk | {name: torch.stack([critic[name] for critic in critics]) for name in critics[0]}


def _initial_actor(generator: np.random.Generator, spec: Spec, h: Hyperparameters) -> Parameters:
    trunk = _initial_trunk(generator, spec, h)
    return trunk | _initial_perceptron(generator, h.feature_size, spec.action_size, h)


def _initial_trunk(generator: np.random.Generator, spec: Spec, h: Hyperparameters) -> Parameters:
    norm = {f"{NORM}.weight": torch.ones(h.feature_size), f"{NORM}.bias": torch.zeros(h.feature_size)}
    return _initial_layer(generator, "trunk.linear", (h.feature_size, encoded_size(spec))) | norm


def _initial_perceptron(generator: np.random.Generator, inputs: int, outputs: int, h: Hyperparameters) -> Parameters:
    widths = (inputs, h.hidden_width, h.hidden_width, outputs)
    layers: Parameters = {}
    for index, name in enumerate(("linear0", "linear1", HEAD)):
        layers |= _initial_layer(generator, name, (widths[index + 1], widths[index]))
    return layers


def _initial_layer(generator: np.random.Generator, name: str, shape: tuple[int, ...], gain: float = 1.0) -> Parameters:
    """Draws an orthogonal weight; the bias is 0."""
    return {f"{name}.weight": gain * _orthogonal(generator, shape), f"{name}.bias": torch.zeros(shape[0])}


def _orthogonal(generator: np.random.Generator, shape: tuple[int, ...]) -> Tensor:
    """Draws a weight whose rows, one per output, or else its columns are orthonormal."""
    rows, columns = shape[0], math.prod(shape[1:])
    tall = torch.from_numpy(generator.standard_normal((max(rows, columns), min(rows, columns))))
    # A QR factorisation whose R has a positive diagonal makes every orthogonal matrix as likely as any other.
    r = torch.linalg.cholesky(tall.mT @ tall, upper=True)  # QR itself takes much longer
    q: Tensor = torch.linalg.solve_triangular(r, tall, upper=True, left=False)
    return (q if rows >= columns else q.mT).reshape(shape).float()
