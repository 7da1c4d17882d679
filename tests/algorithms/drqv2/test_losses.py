"""The losses of DrQ-v2, with values worked out by hand.

The networks are small enough for that: one encoded number, one feature, hidden layers of one unit. LayerNorm of a
single feature gives its bias, so a trunk's feature is Tanh of that bias, here 0.
"""

import math

import pytest
import torch
from torch import tensor

from mrq.algorithms.drqv2.batch import Batch
from mrq.algorithms.drqv2.hyperparameters import Hyperparameters
from mrq.algorithms.drqv2.losses import (
    actor_loss,
    critic_loss,
    critic_target,
    exploring_actions,
    smoothed_actions,
)

H = Hyperparameters(discount=0.5, noise_clip=0.3)
LARGEST = 0.999999
ENCODED = torch.zeros(2, 1)


def trunk():
    return {
        "trunk.linear.weight": torch.ones(1, 1),
        "trunk.linear.bias": torch.zeros(1),
        "trunk.norm.weight": torch.ones(1),
        "trunk.norm.bias": torch.zeros(1),
    }


def critic(*slopes):
    """Two critics: value = slope * relu(action)."""
    weights = tensor(slopes)[:, None, None]
    return trunk() | {
        "linear0.weight": tensor([[[0.0, 1.0]], [[0.0, 1.0]]]),
        "linear0.bias": torch.zeros(2, 1),
        "linear1.weight": torch.ones(2, 1, 1),
        "linear1.bias": torch.zeros(2, 1),
        "head.weight": weights,
        "head.bias": torch.zeros(2, 1),
    }


def actor(mean):
    """Always gives the same mean action."""
    return trunk() | {
        "linear0.weight": torch.zeros(1, 1),
        "linear0.bias": torch.zeros(1),
        "linear1.weight": torch.zeros(1, 1),
        "linear1.bias": torch.zeros(1),
        "head.weight": torch.zeros(1, 1),
        "head.bias": tensor([math.atanh(mean)]),
    }


def batch(noise, std=0.2):
    return Batch(
        states=torch.zeros(2, 2, 0),
        actions=torch.zeros(2, 3, 1),
        rewards=tensor([[1.0, 2.0, 4.0], [1.0, 2.0, 4.0]]),
        alive=tensor([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0]]),
        noise={"target_noise": tensor(noise)[:, None], "actor_noise": tensor(noise)[:, None]},
        std=tensor(std),
    )


def test_exploration_noise_is_not_clipped_and_the_action_stays_in_its_range():
    actions = exploring_actions(tensor([0.5, 0.5, -0.5]), tensor([-3.0, 2.0, -4.0]), tensor(0.4))
    torch.testing.assert_close(actions, tensor([-0.7, LARGEST, -LARGEST]))


def test_smoothing_noise_is_clipped_and_the_gradient_passes_where_the_action_is_clamped():
    means = tensor([0.5, 0.5, 0.9, -0.9], requires_grad=True)
    actions = smoothed_actions(means, tensor([1.0, -9.0, 9.0, -9.0]), tensor(0.2), clip=0.3)
    torch.testing.assert_close(actions.detach(), tensor([0.7, 0.2, LARGEST, -LARGEST]))
    actions.sum().backward()
    torch.testing.assert_close(means.grad, torch.ones(4))


def test_the_target_is_the_return_and_the_smaller_discounted_value_of_the_noisy_action():
    target = critic_target(actor(0.5), critic(10.0, 7.0), ENCODED, batch([1.0, -9.0]), H)
    # 1 + 0.5 * 2 + 0.25 * 4 = 3, and 0.125 of 7 * (0.5 + 0.2); the second window terminated after two rewards.
    torch.testing.assert_close(target, tensor([3 + 0.125 * 4.9, 2.0]))


def test_the_critic_loss_sums_both_critics_mean_squared_errors():
    loss, value_mean = critic_loss(critic(1.0, 2.0), ENCODED, tensor([[0.5], [1.0]]), tensor([1.0, 0.0]))
    # Values 0.5 and 1, then 1 and 2: errors -0.5 and 1, then 0 and 2.
    assert loss.item() == pytest.approx((0.25 + 1) / 2 + (0 + 4) / 2)
    assert value_mean.item() == pytest.approx((0.5 + 1 + 1 + 2) / 4)


def test_the_actor_loss_is_minus_the_mean_smaller_value():
    own = {name: t.requires_grad_() for name, t in actor(0.5).items()}
    loss = actor_loss(own, critic(3.0, 2.0), ENCODED, batch([1.0, -9.0]), H)
    assert loss.item() == pytest.approx(-2 * (0.7 + 0.2) / 2)
    loss.backward()
    assert own["head.bias"].grad.item() == pytest.approx(-2 * (1 - 0.5**2))  # the slope of Tanh is 1 - mean²


def test_a_clamped_action_still_moves_the_actor():
    own = {name: t.requires_grad_() for name, t in actor(0.9).items()}
    actor_loss(own, critic(3.0, 2.0), ENCODED, batch([9.0, 9.0]), H).backward()
    assert own["head.bias"].grad.item() == pytest.approx(-2 * (1 - 0.9**2))
