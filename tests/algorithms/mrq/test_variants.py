"""Each switch of the design study changes what it names, by plain arithmetic, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from mrq.algorithms.mrq import networks
from mrq.algorithms.mrq.agents import NETWORKS
from mrq.algorithms.mrq.noise import value_noise
from mrq.algorithms.mrq.two_hot import bin_locations, two_hot
from mrq.algorithms.observed import Observed
from mrq.interface import Spec
from tests.algorithms.mrq.test_agents import make, noise_for, windows_for

SPEC = Spec(numbers=3, continuous=2)


@pytest.fixture
def h(small):
    return replace(small, state_action_embedding=small.state_embedding)


def shaken(agents):
    """Makes targets that differ from the networks, and biases that are not 0."""
    g = torch.Generator().manual_seed(5)
    for parameters in (*agents.networks.values(), *agents.targets.values()):
        for tensor in parameters.values():
            tensor += 0.1 * torch.randn(tensor.shape, generator=g)
    return agents


def own(parameters, differentiable=False):
    return {name: tensor[0].detach().clone().requires_grad_(differentiable) for name, tensor in parameters.items()}


def gradients_taken(agents, network):
    """Returns the gradients: ten times AdamW's first moments after one step."""
    return {name: 10 * mean[0] for name, mean in agents.moments[network].means.items()}


def assert_gradients(agents, network, loss, parameters):
    expected = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True, materialize_grads=True)
    for (name, taken), gradient in zip(gradients_taken(agents, network).items(), expected, strict=True):
        tolerance = 1e-3 * float(gradient.abs().max()) + 1e-7
        torch.testing.assert_close(taken, gradient, rtol=1e-3, atol=tolerance, msg=lambda m, n=name: n + m)


def plain_action(policy, zs):
    return torch.tanh(networks.pre_activations(policy, zs))


AIMS = {
    "default": lambda f, f_, policy, s: networks.encode_state(f_, Observed((), s)),
    "state_action_target": lambda f, f_, policy, s: networks.encode_pair(
        f_, z := networks.encode_state(f_, Observed((), s)), plain_action(policy, z)
    ),
    "no target_encoder": lambda f, f_, policy, s: networks.encode_state(f, Observed((), s)),
    "both": lambda f, f_, policy, s: networks.encode_pair(
        f, z := networks.encode_state(f, Observed((), s)), plain_action(policy, z).detach()
    ),
}
ENCODER_VARIANTS = {
    "default": ({}, "default"),
    "dynamics-target": ({"state_action_target": True}, "state_action_target"),
    "no-target-encoder": ({"target_encoder": False}, "no target_encoder"),
    "revert": ({"linear_value": True, "state_action_target": True, "target_encoder": False}, "both"),
    "non-linear-model": ({"linear_model": False}, "default"),
    "mse-reward-loss": ({"categorical_reward": False}, "default"),
    "no-unroll": ({"encoder_horizon": 1}, "default"),
}


@pytest.mark.parametrize("name", ENCODER_VARIANTS)
def test_the_encoder_loss(name, h):
    changes, aim = ENCODER_VARIANTS[name]
    h = replace(h, **changes)
    agents, horizon = shaken(make(SPEC, h)), h.encoder_horizon
    windows = windows_for(SPEC, h, 1, 1, horizon + 1, horizon)
    encoder, target, policy = (
        own(agents.networks["encoder"], differentiable=True),
        own(agents.targets["encoder"]),
        own(agents.targets["policy"]),
    )
    zs, loss, bins = networks.encode_state(encoder, Observed((), windows.states[0, :, 0])), 0, bin_locations(65, 10.0)
    for t in range(horizon):
        zsa = networks.encode_pair(encoder, zs, windows.actions[0, :, t])
        if name == "non-linear-model":
            made = []
            for part in ("terminal", "state", "reward"):
                x = zsa
                for layer in range(2):
                    x = F.linear(x, *(encoder[f"m.{part}.linear{layer}.{kind}"] for kind in ("weight", "bias")))
                    x = F.elu(F.layer_norm(x, (32,)))
                made.append(F.linear(x, *(encoder[f"m.{part}.linear2.{kind}"] for kind in ("weight", "bias"))))
            terminal, zs, reward = made[0][:, 0], made[1], made[2]
        else:
            out = F.linear(zsa, encoder["m.weight"], encoder["m.bias"])
            terminal, zs, reward = out[:, 0], out[:, 1:25], out[:, 25:]
        rewards, alive, after = windows.rewards[0, :, t], windows.alive[0, :, t], windows.alive[0, :, t + 1]
        aimed = AIMS[aim](encoder, target, policy, windows.states[0, :, t + 1])
        if name == "mse-reward-loss":
            of_reward = (reward[:, 0] - rewards) ** 2
        else:
            of_reward = -(two_hot(rewards, bins) * reward.log_softmax(-1)).sum(-1)
        parts = ((zs - aimed) ** 2).mean(-1) + 0.1 * of_reward + 0.1 * (terminal - (alive - after)) ** 2
        loss = loss + (alive * parts).mean()
    agents.update_encoder(windows, {}, torch.tensor([True]))
    assert_gradients(agents, "encoder", loss, encoder)


VALUE_VARIANTS = {
    "default": {},
    "linear-value-function": {"linear_value": True},
    "no-min": {"minimum_target": False},
    "no-lap": {"prioritised": False},
    "no-mr": {"model_based": False},
    "one-step-return": {"value_horizon": 1},
    "no-reward-scaling": {"reward_scaling": False},
}


@pytest.mark.parametrize("name", VALUE_VARIANTS)
def test_the_value_loss(name, h):
    h = replace(h, **VALUE_VARIANTS[name], value_gradient_clip=1e9)
    agents, steps = shaken(make(SPEC, h)), h.value_horizon
    agents.sync_targets(torch.tensor([0.5]))
    agents.sync_targets(torch.tensor([0.25]))
    scale, target_scale = (1, 1) if name == "no-reward-scaling" else (0.25, 0.5)
    shaken(agents)
    windows, noise = windows_for(SPEC, h, 1, 1, 2, steps), noise_for(value_noise, SPEC, h, 1, 1)
    encoder, value = (own(agents.networks[network], differentiable=True) for network in ("encoder", "value"))
    targets = {network: own(agents.targets[network]) for network in NETWORKS}
    zs = networks.encode_state(targets["encoder"], Observed((), windows.states[0, :, 1]))
    action = plain_action(targets["policy"], zs) + (0.2 * noise["target_noise"][0]).clamp(-0.3, 0.3)
    both = networks.values(targets["value"], networks.encode_pair(targets["encoder"], zs, action.clamp(-1, 1)))
    bootstrap = both.mean(0) if name == "no-min" else both.min(0).values
    rewards, alive = windows.rewards[0], windows.alive[0]
    returned = sum(0.99**t * alive[:, t] * rewards[:, t] for t in range(steps))
    aimed = (returned + 0.99**steps * alive[:, steps] * target_scale * bootstrap) / scale
    zsa = networks.encode_pair(
        encoder, networks.encode_state(encoder, Observed((), windows.states[0, :, 0])), windows.actions[0, :, 0]
    )
    if name == "linear-value-function":
        q = torch.stack([(zsa @ value["head.weight"][c].T)[:, 0] + value["head.bias"][c] for c in range(2)])
        assert len(value) == 2
    else:
        q = networks.values(value, zsa)
    error = q - aimed
    loss = (error**2).mean() if name == "no-lap" else F.smooth_l1_loss(q, aimed.expand_as(q))
    before = {n: t.clone() for n, t in agents.networks["encoder"].items()}
    agents.update_value_and_policy(windows, noise)
    parameters = value | {f"encoder.{n}": t for n, t in encoder.items()}
    agents.moments["both"] = agents.moments["value"]._replace(
        means=agents.moments["value"].means
        | {f"encoder.{n}": mean for n, mean in agents.moments["encoder"].means.items()}
    )
    if name == "no-mr":
        assert_gradients(agents, "both", loss, parameters)
    else:
        assert_gradients(agents, "value", loss, value)
        for n, tensor in agents.networks["encoder"].items():
            assert torch.equal(tensor, before[n])


@pytest.mark.parametrize(
    ("changes", "untouched"),
    [
        ({"state_action_target": True}, "rl"),
        ({"target_encoder": False}, "rl"),
        ({"encoder_horizon": 1}, "rl"),
        ({"minimum_target": False}, "encoder"),
        ({"prioritised": False}, "encoder"),
        ({"reward_scaling": False}, "encoder"),
        ({"value_horizon": 1}, "encoder"),
    ],
)
def test_the_other_update_is_the_same_to_the_last_bit(h, changes, untouched):
    def updated(h):
        agents = shaken(make(SPEC, h))
        agents.sync_targets(torch.tensor([0.5]))
        if untouched == "rl":
            agents.update_value_and_policy(windows_for(SPEC, h, 1, 1, 2, 3), noise_for(value_noise, SPEC, h, 1, 1))
        else:
            agents.update_encoder(windows_for(SPEC, h, 1, 1, 6, 5), {}, torch.tensor([True]))
        return agents.networks

    plain, varied = updated(h), updated(replace(h, **changes))
    for network in NETWORKS:
        for name, tensor in plain[network].items():
            assert torch.equal(tensor, varied[network][name])


def test_a_linear_model_and_its_networks_have_what_they_predict(h):
    plain = networks.initial_encoder(np.random.default_rng(0), SPEC, h)
    assert plain["m.weight"].shape == (1 + 24 + 65, 24)
    mse = networks.initial_encoder(np.random.default_rng(0), SPEC, replace(h, categorical_reward=False))
    assert mse["m.weight"].shape == (1 + 24 + 1, 24)
    networked = networks.initial_encoder(np.random.default_rng(0), SPEC, replace(h, linear_model=False))
    assert "m.weight" not in networked
    assert [networked[f"m.{part}.linear2.weight"].shape[0] for part in ("terminal", "state", "reward")] == [1, 24, 65]
