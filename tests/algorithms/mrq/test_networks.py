import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from mrq import Hyperparameters
from mrq.algorithms.mrq import networks
from mrq.algorithms.observed import Observed
from mrq.interface import Image, Spec

GENERATOR = np.random.default_rng(0)


def layer_norm(x):
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5)


def layer(parameters, name, x):
    return x @ parameters[f"{name}.weight"].T + parameters[f"{name}.bias"]


def randomised(parameters):
    """Biases are zero at first; tests want to see them at work."""
    generator = torch.Generator().manual_seed(0)
    return {n: t + 0.1 * torch.randn(t.shape, generator=generator) for n, t in parameters.items()}


def test_sizes_of_the_paper():
    h, spec = Hyperparameters(), Spec(numbers=17, continuous=6)
    encoder = networks.initial_encoder(GENERATOR, spec, h)
    shapes = {name.removesuffix(".weight"): tuple(t.shape) for name, t in encoder.items() if name.endswith("weight")}
    assert shapes == {
        "f.linear0": (512, 17),
        "f.linear1": (512, 512),
        "f.linear2": (512, 512),
        "g.action": (256, 6),
        "g.linear0": (512, 768),
        "g.linear1": (512, 512),
        "g.linear2": (512, 512),
        "m": (1 + 512 + 65, 512),
    }
    value = networks.initial_value(GENERATOR, h)
    assert value["linear0.weight"].shape == (2, 512, 512)
    assert value["head.weight"].shape == (2, 1, 512)
    assert networks.initial_policy(GENERATOR, spec, h)["linear2.weight"].shape == (6, 512)
    image = networks.initial_encoder(GENERATOR, Spec((Image(3, 84, 84),), history=3, continuous=6), h)
    assert image["f.convolution0.weight"].shape == (32, 9, 3, 3)
    assert image["f.linear.weight"].shape == (512, 1568)


def test_initialisation_is_xavier_uniform_with_gain_sqrt_2():
    h = Hyperparameters()
    encoder = networks.initial_encoder(GENERATOR, Spec((Image(1, 84, 84),), history=4, choices=(6,)), h)
    for name, fan_in, fan_out in [("g.linear0", 768, 512), ("m", 512, 578), ("f.convolution1", 288, 288)]:
        weight = encoder[f"{name}.weight"]
        bound = math.sqrt(2) * math.sqrt(6 / (fan_in + fan_out))
        assert weight.abs().max() <= bound
        assert weight.abs().max() > 0.99 * bound
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
        assert not encoder[f"{name}.bias"].any()
    value = networks.initial_value(GENERATOR, h)
    assert not torch.equal(value["linear0.weight"][0], value["linear0.weight"][1])


def test_vector_encoder(small, spec):
    p = randomised(networks.initial_encoder(GENERATOR, spec, small))
    states, actions = torch.randn(5, 3), torch.randn(5, 2)
    zs = states
    for index in range(3):
        zs = F.elu(layer_norm(layer(p, f"f.linear{index}", zs)))
    torch.testing.assert_close(networks.encode_state(p, Observed((), states)), zs)
    x = torch.cat([zs, F.elu(layer(p, "g.action", actions))], 1)
    for index in range(2):
        x = F.elu(layer_norm(layer(p, f"g.linear{index}", x)))
    zsa = layer(p, "g.linear2", x)
    torch.testing.assert_close(networks.encode_pair(p, zs, actions), zsa)


def test_image_encoder_is_the_papers(small):
    spec = Spec((Image(1, 84, 84),), history=4, choices=(3,))
    p = randomised(networks.initial_encoder(GENERATOR, spec, small))
    convolutions = [nn.Conv2d(4 if i == 0 else 32, 32, 3, stride=s) for i, s in enumerate((2, 2, 2, 1))]
    states = torch.randint(0, 256, (2, 4, 84, 84), dtype=torch.uint8)
    x = states.float() / 255 - 0.5
    for index, convolution in enumerate(convolutions):
        convolution.weight.data = p[f"f.convolution{index}.weight"]
        convolution.bias.data = p[f"f.convolution{index}.bias"]
        x = F.elu(convolution(x))
    assert x.shape == (2, 32, 7, 7)
    expected = F.elu(layer_norm(layer(p, "f.linear", x.reshape(2, 1568))))
    torch.testing.assert_close(
        networks.encode_state(p, Observed((states,), None)), expected.detach(), rtol=1e-4, atol=1e-5
    )


def image_features(p, name, images):
    """Computes the paper's convolutions for any size of image."""
    x = images.float() / 255 - 0.5
    for index, stride in enumerate((2, 2, 2, 1)):
        weight, bias = p[f"{name}.convolution{index}.weight"], p[f"{name}.convolution{index}.bias"]
        x = F.elu(F.conv2d(x, weight, bias, stride))
    return F.elu(layer_norm(layer(p, f"{name}.linear", x.flatten(1))))


@pytest.mark.parametrize("numbers", [0, 5])
def test_each_part_has_a_network_and_one_layer_joins_them(small, numbers):
    spec = Spec((Image(3, 84, 84), Image(1, 64, 48)), numbers, 2, continuous=1, choices=(4,), masked=True)
    p = randomised(networks.initial_encoder(GENERATOR, spec, small))
    assert p["f.image0.linear.weight"].shape == (24, 1568)
    assert p["f.image1.convolution0.weight"].shape == (32, 2, 3, 3)
    assert p["f.image1.linear.weight"].shape == (24, 32 * 5 * 3)  # 64, 31, 15, 7, 5 and 48, 23, 11, 5, 3
    assert p["f.joined.weight"].shape == (24, 72 if numbers else 48)
    assert ("f.linear0.weight" in p) == (numbers > 0)
    images = tuple(torch.randint(0, 256, (3, 2 * i.channels, *i[1:]), dtype=torch.uint8) for i in spec.images)
    vectors = torch.randn(3, 2 * numbers) if numbers else None
    parts = [image_features(p, f"f.image{place}", image) for place, image in enumerate(images)]
    if numbers:
        hidden = F.elu(layer_norm(layer(p, "f.linear0", vectors)))
        parts.append(F.elu(layer_norm(layer(p, "f.linear1", hidden))))
    expected = F.elu(layer_norm(layer(p, "f.joined", torch.cat(parts, 1))))
    encoded = networks.encode_state(p, Observed(images, vectors))
    torch.testing.assert_close(encoded, expected, rtol=1e-4, atol=1e-5)
    total = sum(tensor.numel() for tensor in p.values())
    others = networks.parameter_count(spec, small) - total
    policy = networks.initial_policy(GENERATOR, spec, small)
    assert policy["linear2.weight"].shape[0] == 5
    critics = networks.initial_value(GENERATOR, small)
    assert others == sum(tensor.numel() for tensor in (*policy.values(), *critics.values()))


@pytest.mark.parametrize("side", [32, 48, 512])
def test_images_of_other_sizes_have_the_same_layers(small, side):
    p = randomised(networks.initial_encoder(GENERATOR, Spec((Image(1, side, side),), continuous=1), small))
    image = torch.randint(0, 256, (1, 1, side, side), dtype=torch.uint8)
    encoded = networks.encode_state(p, Observed((image,), None))
    torch.testing.assert_close(encoded, image_features(p, "f", image), rtol=1e-4, atol=1e-5)


def test_value_and_policy(small, spec):
    v = randomised(networks.initial_value(GENERATOR, small))
    zsa = torch.randn(4, 20)
    for critic in range(2):
        x = zsa
        for index in range(3):
            x = F.elu(layer_norm(x @ v[f"linear{index}.weight"][critic].T + v[f"linear{index}.bias"][critic]))
        expected = (x @ v["head.weight"][critic].T + v["head.bias"][critic])[:, 0]
        torch.testing.assert_close(networks.values(v, zsa)[critic], expected)
    p = randomised(networks.initial_policy(GENERATOR, spec, small))
    x = zs = torch.randn(4, 24)
    for index in range(2):
        x = F.relu(layer_norm(layer(p, f"linear{index}", x)))
    torch.testing.assert_close(networks.pre_activations(p, zs), layer(p, "linear2", x))
