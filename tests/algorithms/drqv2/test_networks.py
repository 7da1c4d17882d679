"""The networks of DrQ-v2: their sizes, how they begin, and what they compute."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from mrq.algorithms.drqv2 import networks
from mrq.algorithms.drqv2.hyperparameters import Hyperparameters
from mrq.interface import Image, Spec

SPEC = Spec((Image(3, 84, 84),), history=3, continuous=6)
TINY = Spec((Image(1, 21, 24),), history=2, continuous=3)
SMALL = Hyperparameters(feature_size=5, hidden_width=8)


@pytest.fixture(scope="module")
def initial():
    return networks.initial_networks(np.random.default_rng(0), SPEC, Hyperparameters())


def test_sizes(initial):
    shapes = {name: {n: tuple(t.shape) for n, t in parameters.items()} for name, parameters in initial.items()}
    trunk = {
        "trunk.linear.weight": (50, 39_200),
        "trunk.linear.bias": (50,),
        "trunk.norm.weight": (50,),
        "trunk.norm.bias": (50,),
    }
    assert shapes["encoder"] == {
        "convolution0.weight": (32, 9, 3, 3),
        "convolution1.weight": (32, 32, 3, 3),
        "convolution2.weight": (32, 32, 3, 3),
        "convolution3.weight": (32, 32, 3, 3),
    } | {f"convolution{index}.bias": (32,) for index in range(4)}
    assert shapes["critic"] == trunk | {
        "linear0.weight": (2, 1024, 56),
        "linear0.bias": (2, 1024),
        "linear1.weight": (2, 1024, 1024),
        "linear1.bias": (2, 1024),
        "head.weight": (2, 1, 1024),
        "head.bias": (2, 1),
    }
    assert shapes["actor"] == trunk | {
        "linear0.weight": (1024, 50),
        "linear0.bias": (1024,),
        "linear1.weight": (1024, 1024),
        "linear1.bias": (1024,),
        "head.weight": (6, 1024),
        "head.bias": (6,),
    }


def test_weights_begin_orthogonal_and_biases_at_zero(initial):
    for network, parameters in initial.items():
        for name, parameter in parameters.items():
            if name == "trunk.norm.weight":
                assert torch.equal(parameter, torch.ones(50))
            elif name.endswith("bias"):
                assert not parameter.any(), name
            else:
                critics = parameter if network == "critic" and not name.startswith("trunk") else parameter[None]
                for weight in critics:
                    matrix = weight.flatten(1).double()
                    short = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
                    scale = 2.0 if name.startswith("convolution") else 1.0  # ReLU's gain, squared
                    torch.testing.assert_close(short, scale * torch.eye(len(short)).double(), rtol=0, atol=1e-5)


def test_the_critics_begin_apart(initial):
    for name in ("linear0.weight", "linear1.weight", "head.weight"):
        assert not torch.equal(*initial["critic"][name])


def test_an_agent_draws_the_same_networks_from_the_same_generator(initial):
    again = networks.initial_networks(np.random.default_rng(0), SPEC, Hyperparameters())
    for network, parameters in initial.items():
        for name, parameter in parameters.items():
            assert torch.equal(parameter, again[network][name])


def randomised(parameters):
    g = torch.Generator().manual_seed(0)
    return {name: tensor + 0.1 * torch.randn(tensor.shape, generator=g) for name, tensor in parameters.items()}


def test_what_they_compute():
    own = {n: randomised(p) for n, p in networks.initial_networks(np.random.default_rng(1), TINY, SMALL).items()}
    encoder, critic, actor = own["encoder"], own["critic"], own["actor"]
    states = torch.randint(0, 256, (4, 2, 21, 24), dtype=torch.uint8)
    x = states / 255 - 0.5
    for index, stride in enumerate((2, 1, 1, 1)):
        x = F.relu(F.conv2d(x, encoder[f"convolution{index}.weight"], encoder[f"convolution{index}.bias"], stride))
    assert x.shape == (4, 32, 4, 5)
    encoded = networks.encode(encoder, states)
    assert encoded.shape == (4, networks.encoded_size(TINY)) == (4, 640)
    torch.testing.assert_close(encoded, x.permute(0, 2, 3, 1).reshape(4, -1), rtol=1e-4, atol=1e-5)

    def features(parameters):
        y = encoded @ parameters["trunk.linear.weight"].T + parameters["trunk.linear.bias"]
        y = (y - y.mean(1, keepdim=True)) / (y.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        return torch.tanh(y * parameters["trunk.norm.weight"] + parameters["trunk.norm.bias"])

    def perceptron(parameters, y):
        for name in ("linear0", "linear1"):
            y = F.relu(y @ parameters[f"{name}.weight"].T + parameters[f"{name}.bias"])
        return y @ parameters["head.weight"].T + parameters["head.bias"]

    means = torch.tanh(perceptron(actor, features(actor)))
    torch.testing.assert_close(networks.mean_actions(actor, encoded), means, rtol=1e-4, atol=1e-5)
    actions = torch.rand(4, 3) * 2 - 1
    pairs = torch.cat([features(critic), actions], 1)
    values = networks.values(critic, encoded, actions)
    for index in range(2):
        one = {name: tensor[index] for name, tensor in critic.items() if not name.startswith("trunk")}
        torch.testing.assert_close(values[index], perceptron(one, pairs)[:, 0], rtol=1e-4, atol=1e-5)
