"""The networks of MR.Q (paper, appendix B.2), as functions of one agent's parameters.

Glossary, as in the paper:
    f     state encoder:         zs  = f(s); with several parts, a network for each, and a layer that joins them
    g     state-action encoder:  zsa = g(zs, a), with za the action's embedding inside it
    m     MDP predictor:         linear in zsa; terminal, next zs and reward logits (or a network for each)
    Q     two value networks of zsa
    pi    policy of zs; its pre-activation becomes an action by Tanh or Gumbel-Softmax
f, g and m are trained together and live in one set of parameters, the encoder's.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from mrq.algorithms.layers import linear
from mrq.algorithms.mrq.hyperparameters import Hyperparameters
from mrq.algorithms.observed import Observed
from mrq.algorithms.optimiser import Parameters
from mrq.algorithms.trained import Networks
from mrq.interface import Image, Spec

Layers = list[tuple[str, tuple[int, ...]]]  # names, and the shapes of their weights
CRITICS = 2
FIRST_LAYER = "f.linear0"  # the one that sees an observation's numbers
VALUE_HEAD = "head"  # the one that gives a critic's value
MODEL_NETWORKS = ("m.terminal", "m.state", "m.reward")  # where the model is not one linear layer
CHANNELS = 32
KERNEL = 3
STRIDES = (2, 2, 2, 1)


def initial_networks(generator: np.random.Generator, spec: Spec, h: Hyperparameters) -> Networks:
    """Draws the parameters of an agent's three networks: encoder, value and policy."""
    return {
        "encoder": initial_encoder(generator, spec, h),
        "value": initial_value(generator, h),
        "policy": initial_policy(generator, spec, h),
    }


def initial_encoder(generator: np.random.Generator, spec: Spec, h: Hyperparameters) -> Parameters:
    """Draws f, g and m."""
    return _initial(generator, encoder_layers(spec, h))


def initial_value(generator: np.random.Generator, h: Hyperparameters) -> Parameters:
    """Draws both critics, stacked on a leading axis."""
    critics = [_initial(generator, critic_layers(h)) for _ in range(CRITICS)]
    return {name: torch.stack([critic[name] for critic in critics]) for name in critics[0]}


def initial_policy(generator: np.random.Generator, spec: Spec, h: Hyperparameters) -> Parameters:
    """Draws pi."""
    return _initial(generator, policy_layers(spec, h))


def parameter_count(spec: Spec, h: Hyperparameters) -> int:
    """Returns how many numbers an agent learns."""
    layers = [*encoder_layers(spec, h), *critic_layers(h) * CRITICS, *policy_layers(spec, h)]
    return sum(math.prod(shape) + shape[0] for _, shape in layers)


def encoder_layers(spec: Spec, h: Hyperparameters) -> Layers:
    """Returns the layers of f, g and m."""
    layers: Layers = []
    for place, image in enumerate(spec.images):
        layers += _image_layers(_image_name(place, spec.packed), image, spec.history, h)
    if spec.numbers:
        hidden = [h.hidden_width] * _hidden_layers_of_numbers(spec.packed)
        sizes = [spec.numbers * spec.history, *hidden, h.state_embedding]
        layers += [(f"f.linear{index}", (sizes[index + 1], sizes[index])) for index in range(len(sizes) - 1)]
    if spec.packed:
        parts = len(spec.images) + bool(spec.numbers)
        layers.append(("f.joined", (h.state_embedding, parts * h.state_embedding)))
    joined = h.state_embedding + h.action_embedding
    layers += [
        ("g.action", (h.action_embedding, spec.action_size)),
        ("g.linear0", (h.hidden_width, joined)),
        ("g.linear1", (h.hidden_width, h.hidden_width)),
        ("g.linear2", (h.state_action_embedding, h.hidden_width)),
    ]
    outputs = (1, h.state_embedding, h.reward_bins if h.categorical_reward else 1)
    if h.linear_model:
        layers.append(("m", (sum(outputs), h.state_action_embedding)))
    else:
        for name, size in zip(MODEL_NETWORKS, outputs, strict=True):
            widths = (h.state_action_embedding, h.hidden_width, h.hidden_width, size)
            layers += [(f"{name}.linear{index}", (widths[index + 1], widths[index])) for index in range(3)]
    return layers


def _image_name(place: int, packed: bool) -> str:
    """Returns what the layers' names of an observation's image begin with."""
    return f"f.image{place}" if packed else "f"


def _hidden_layers_of_numbers(packed: bool) -> int:
    """Returns how many layers lead to the one that gives a part's share of f: one fewer if another layer follows."""
    return 1 if packed else 2


def _image_layers(name: str, image: Image, history: int, h: Hyperparameters) -> Layers:
    layers: Layers = []
    channels, height, width = image.channels * history, image.height, image.width
    for index, stride in enumerate(STRIDES):
        layers.append((f"{name}.convolution{index}", (CHANNELS, channels, KERNEL, KERNEL)))
        channels, height, width = CHANNELS, (height - KERNEL) // stride + 1, (width - KERNEL) // stride + 1
    return [*layers, (f"{name}.linear", (h.state_embedding, CHANNELS * height * width))]  # 1,568 of 84x84


def critic_layers(h: Hyperparameters) -> Layers:
    """Returns the layers of one critic."""
    widths = [h.state_action_embedding] + [h.hidden_width] * (0 if h.linear_value else 3)
    layers = [(f"linear{index}", (widths[index + 1], widths[index])) for index in range(len(widths) - 1)]
    return [*layers, (VALUE_HEAD, (1, widths[-1]))]


def policy_layers(spec: Spec, h: Hyperparameters) -> Layers:
    """Returns the layers of pi."""
    widths = (h.state_embedding, h.hidden_width, h.hidden_width, spec.action_size)
    return [(f"linear{index}", (widths[index + 1], widths[index])) for index in range(3)]


def _initial(generator: np.random.Generator, layers: Layers) -> Parameters:
    """Draws Xavier-uniform weights with gain sqrt(2); biases are 0."""
    parameters = {}
    for name, shape in layers:
        receptive_field = math.prod(shape[2:])
        bound = math.sqrt(2) * math.sqrt(6 / ((shape[0] + shape[1]) * receptive_field))
        parameters[f"{name}.weight"] = torch.from_numpy(generator.uniform(-bound, bound, shape).astype(np.float32))
        parameters[f"{name}.bias"] = torch.zeros(shape[0])
    return parameters


def encode_state(encoder: Parameters, states: Observed) -> Tensor:
    """Computes f: zs (batch, state_embedding) of what a batch of states shows."""
    packed = "f.joined.weight" in encoder
    parts = [_encode_image(encoder, _image_name(place, packed), image) for place, image in enumerate(states.images)]
    if states.numbers is not None:
        x = states.numbers
        for index in range(_hidden_layers_of_numbers(packed) + 1):
            x = normed(_layer(encoder, f"f.linear{index}", x), F.elu)
        parts.append(x)
    return normed(_layer(encoder, "f.joined", torch.cat(parts, -1)), F.elu) if packed else parts[0]


def _encode_image(encoder: Parameters, name: str, images: Tensor) -> Tensor:
    x = (images / 255.0 - 0.5).to(memory_format=torch.channels_last)  # as GPUs convolve best
    for index, stride in enumerate(STRIDES):
        weight, bias = (encoder[f"{name}.convolution{index}.{kind}"] for kind in ("weight", "bias"))
        x = F.elu(F.conv2d(x.to(weight.dtype), weight, bias, stride=stride))
    return normed(_layer(encoder, f"{name}.linear", x.flatten(1)), F.elu)


def encode_pair(encoder: Parameters, zs: Tensor, actions: Tensor) -> Tensor:
    """Computes g: zsa (batch, state_action_embedding) of zs (batch, state_embedding) and actions."""
    by_state = encoder["g.linear0.weight"][:, : zs.shape[-1]]
    x = normed(linear(zs, by_state) + action_features(encoder, actions), F.elu)
    x = normed(_layer(encoder, "g.linear1", x), F.elu)
    return _layer(encoder, "g.linear2", x)


def predict(encoder: Parameters, zsa: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Computes m where it is three networks: terminals (batch,), next zs and reward logits of zsa."""

    def network(name: str) -> Tensor:
        x = zsa
        for index in range(2):
            x = normed(_layer(encoder, f"{name}.linear{index}", x), F.elu)
        return _layer(encoder, f"{name}.linear2", x)

    terminals, zs, reward_logits = map(network, MODEL_NETWORKS)
    return terminals.squeeze(-1), zs, reward_logits


def action_features(encoder: Parameters, actions: Tensor) -> Tensor:
    """Computes what za adds to g's first layer, which is one matrix on zs and za side by side."""
    za = F.elu(_layer(encoder, "g.action", actions))
    weight = encoder["g.linear0.weight"]
    return linear(za, weight[:, weight.shape[1] - za.shape[-1] :], encoder["g.linear0.bias"])


def values(value: Parameters, zsa: Tensor) -> Tensor:
    """Computes Q: both critics' values (critics, batch) of zsa (batch, state_action_embedding)."""

    def critic(parameters: Parameters) -> Tensor:
        x = zsa
        for index in range(len(parameters) // 2 - 1):
            x = normed(_layer(parameters, f"linear{index}", x), F.elu)
        return _layer(parameters, VALUE_HEAD, x).squeeze(-1)

    return torch.vmap(critic)(value)


def pre_activations(policy: Parameters, zs: Tensor) -> Tensor:
    """Computes pi before its final activation (batch, action_size): logits where actions are choices."""
    for index in range(2):
        zs = normed(_layer(policy, f"linear{index}", zs), F.relu)
    return _layer(policy, "linear2", zs)


def normed(x: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
    """Applies LayerNorm, without learned scale or shift, and an activation."""
    return activation(F.layer_norm(x, x.shape[-1:], eps=1e-5))


def _layer(parameters: Parameters, name: str, x: Tensor) -> Tensor:
    return linear(x, parameters[f"{name}.weight"], parameters[f"{name}.bias"])
