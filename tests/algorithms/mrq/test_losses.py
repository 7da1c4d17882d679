"""Each loss against a few plain lines of arithmetic."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from mrq.algorithms.mrq import losses, networks
from mrq.algorithms.mrq.batch import Batch, RewardScales
from mrq.algorithms.mrq.two_hot import bin_locations
from mrq.algorithms.mrq.unroll import Predictions
from mrq.algorithms.observed import Observed

BATCH = 4
OWN = torch.ones(2, dtype=torch.bool)


@pytest.fixture
def encoder(small, spec):
    return networks.initial_encoder(np.random.default_rng(1), spec, small)


@pytest.fixture
def value(small):
    return networks.initial_value(np.random.default_rng(2), small)


@pytest.fixture
def policy(small, spec):
    return networks.initial_policy(np.random.default_rng(3), spec, small)


def predicted(encoder, zs, actions):
    """Computes one step of the model, as the paper writes it."""
    out = F.linear(networks.encode_pair(encoder, zs, actions), encoder["m.weight"], encoder["m.bias"])
    return out[:, 0], out[:, 1 : 1 + zs.shape[1]], out[:, 1 + zs.shape[1] :]


def test_encoder_loss(encoder, small):
    torch.manual_seed(0)
    states, targets, actions = torch.randn(BATCH, 3), torch.randn(BATCH, 5, 24), torch.randn(BATCH, 5, 2)
    rewards = torch.tensor([-1.0, 0.3, 2.0, -30_000.0])[:, None].repeat(1, 5)
    alive = torch.ones(BATCH, 6)
    alive[1, 3:] = 0  # the second window terminates with its third step
    alive[2, 1:] = 0  # the third with its first
    bins = bin_locations(65, 10.0)

    def of(predictions, terminal_weight):
        given = losses.EncoderTargets(targets, rewards, alive, torch.tensor(terminal_weight))
        return losses.encoder_loss(predictions, given, bins, small)

    expected = np.zeros(3)
    predictions = [[], [], []]
    zs = networks.encode_state(encoder, Observed((), states))
    for t in range(5):
        terminal, zs, logits = predicted(encoder, zs, actions[:, t])
        for made, tensor in zip(predictions, (terminal, zs, logits), strict=True):
            made.append(tensor)
    predictions = Predictions(*map(torch.stack, predictions))
    loss, parts = of(predictions, 0.1)
    for b in range(BATCH):
        zs = networks.encode_state(encoder, Observed((), states[b : b + 1]))
        for t in range(5):
            if alive[b, t] == 0:
                break
            terminal, zs, logits = predicted(encoder, zs, actions[b : b + 1, t])
            r = rewards[b, t].clamp(bins[0], bins[-1]).item()
            high = int(np.clip(np.searchsorted(bins.numpy(), r), 1, 64))
            share = (r - bins[high - 1]) / (bins[high] - bins[high - 1])
            log_p = F.log_softmax(logits, -1)[0]
            ended = alive[b, t + 1] == 0
            expected[0] += F.mse_loss(zs[0], targets[b, t]).item() / BATCH  # every batch entry counts in the mean
            expected[1] += -(share * log_p[high] + (1 - share) * log_p[high - 1]).item() / BATCH
            expected[2] += (terminal - float(ended)).square().item() / BATCH
    np.testing.assert_allclose(parts.numpy(), expected, rtol=1e-4)
    assert loss.item() == pytest.approx(expected[0] + 0.1 * expected[1] + 0.1 * expected[2], rel=1e-4)
    without, _ = of(predictions, 0.0)
    assert without.item() == pytest.approx(expected[0] + 0.1 * expected[1], rel=1e-4)


def test_value_target(encoder, policy, value, small, spec):
    torch.manual_seed(0)
    states, rewards, noise = torch.randn(BATCH, 3), torch.randn(BATCH, 3), torch.randn(BATCH, 2)
    alive = torch.tensor([[1.0, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]])
    targets = {"encoder": encoder, "policy": policy, "value": value}
    scales = RewardScales(present=torch.tensor(2.0), target=torch.tensor(3.0))
    no_states, no_actions = torch.zeros(BATCH, 2, 0), torch.zeros(BATCH, 3, 0)  # the target must not need them
    batch = Batch(no_states, no_actions, rewards, alive, {"target_noise": noise}, OWN)
    target = losses.value_target(targets, Observed((), states), OWN, batch, scales, spec, small)
    zs = networks.encode_state(encoder, Observed((), states))
    actions = torch.tanh(networks.pre_activations(policy, zs)) + (0.2 * noise).clamp(-0.3, 0.3)
    q1, q2 = networks.values(value, networks.encode_pair(encoder, zs, actions.clamp(-1, 1)))
    for b, (steps, continues) in enumerate([(3, 1), (2, 0), (3, 0), (3, 1)]):
        n_step = sum(0.99**t * rewards[b, t].item() for t in range(steps))
        expected = (n_step + continues * 0.99**3 * 3.0 * min(q1[b].item(), q2[b].item())) / 2.0
        assert target[b].item() == pytest.approx(expected, rel=1e-4)


def test_value_loss_is_huber_over_both_critics(value, small):
    zsa, target = torch.randn(BATCH, 20), torch.tensor([0.0, 5.0, -5.0, 0.5])
    loss, (td_errors, mean) = losses.value_loss(value, zsa, target, small)
    q = networks.values(value, zsa)
    delta = (q - target).abs()
    huber = torch.where(delta < 1, 0.5 * delta**2, delta - 0.5)
    torch.testing.assert_close(loss, huber.sum() / (2 * BATCH))
    torch.testing.assert_close(td_errors, torch.maximum(delta[0], delta[1]))
    torch.testing.assert_close(mean, q.mean())


def test_policy_loss(encoder, policy, value, small, spec):
    zs = torch.randn(BATCH, 24)
    h = replace(small, pre_activation_weight=0.5)  # large enough to be seen
    pre = networks.pre_activations(policy, zs)
    q = networks.values(value, networks.encode_pair(encoder, zs, torch.tanh(pre)))
    expected = -(q[0].mean() + q[1].mean()) / 2 + 0.5 * pre.square().mean()
    nothing = torch.empty(0)  # the loss must not need it
    batch = Batch(nothing, nothing, nothing, nothing, {}, OWN)
    loss = losses.policy_loss(policy, {"encoder": encoder, "value": value}, zs, OWN, batch, spec, h)
    torch.testing.assert_close(loss, expected)
