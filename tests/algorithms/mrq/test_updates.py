"""The updates of one agent in lower precision."""

import numpy as np
import torch

from mrq.algorithms.mrq.batch import Constants
from mrq.algorithms.mrq.networks import initial_encoder, initial_policy, initial_value
from mrq.algorithms.mrq.updates import explore, value_gradients
from mrq.interface import Spec

SPEC = Spec(numbers=2, continuous=6)


def constants(h, dtype):
    return Constants(h, SPEC, bins=torch.empty(0), dtype=dtype)


def test_bf16_rounds_gradients_a_little_and_values_not_to_halves(small):
    value = initial_value(np.random.default_rng(0), small)
    value["head.bias"] += 100.3
    g = torch.Generator().manual_seed(0)
    zsa, target = torch.randn(16, small.state_action_embedding, generator=g), 100 + torch.randn(16, generator=g)
    full, errors, _ = value_gradients(value, zsa, target, constants(small, torch.float32))
    rounded, rounded_errors, _ = value_gradients(value, zsa, target, constants(small, torch.bfloat16))
    assert 0 < (errors - rounded_errors).abs().max() < 0.05  # a value of 100 in bf16 is off by up to 0.25
    for name, gradient in full.items():
        assert rounded[name].dtype == torch.float32
        off = (rounded[name] - gradient).norm() / gradient.norm()
        assert (0 < off < 0.05) or (name == "head.bias" and off == 0), name


def test_bf16_tells_observations_apart_that_it_would_round_to_the_same(small):
    g = np.random.default_rng(0)
    networks = {"encoder": initial_encoder(g, SPEC, small), "policy": initial_policy(g, SPEC, small)}
    states = torch.tensor([[8.0, 1.0], [8.03, 1.0]])
    assert states.bfloat16()[0].equal(states.bfloat16()[1])
    noise, own_actions = {"exploration_noise": torch.zeros(2, 6)}, torch.ones(6, dtype=torch.bool)
    one, other = explore(networks, states, noise, own_actions, constants(small, torch.bfloat16))
    assert not one.equal(other)
