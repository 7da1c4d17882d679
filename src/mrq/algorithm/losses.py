"""The three losses of MR.Q (paper, section 4.2): pure functions of one agent, with the noise passed in."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from mrq.algorithm.actions import policy_actions, target_actions
from mrq.algorithm.networks import Parameters, encode_pair, encode_state, pre_activations, predict, values
from mrq.algorithm.noise import Noise
from mrq.algorithm.returns import multi_step_return
from mrq.algorithm.two_hot import cross_entropy, two_hot
from mrq.hyperparameters import Hyperparameters


def encoder_loss(
    encoder: Parameters,
    first_states: Tensor,  # (batch, *state_shape)
    zs_targets: Tensor,  # (batch, horizon, state_embedding), from the target encoder
    actions: Tensor,  # (batch, horizon, action_size)
    rewards: Tensor,  # (batch, horizon)
    alive: Tensor,  # (batch, horizon + 1)
    terminal_weight: Tensor,  # (), 0 until a termination was seen
    bins: Tensor,
    h: Hyperparameters,
) -> tuple[Tensor, Tensor]:
    """The loss, and its dynamics, reward and terminal parts (3,), unweighted, summed over the unroll."""
    zs = encode_state(encoder, first_states)
    reward_targets = two_hot(rewards, bins)
    terminals = alive[:, :-1] - alive[:, 1:]
    parts = torch.zeros(3, device=zs.device)
    for t in range(actions.shape[1]):
        terminal, zs, reward_logits = predict(encoder, encode_pair(encoder, zs, actions[:, t]))
        errors = torch.stack(
            [
                (zs - zs_targets[:, t]).square().mean(-1),
                cross_entropy(reward_logits, reward_targets[:, t]),
                (terminal - terminals[:, t]).square(),
            ]
        )  # (3, batch)
        parts = parts + (errors * alive[:, t]).mean(-1)
    loss = h.dynamics_weight * parts[0] + h.reward_weight * parts[1] + terminal_weight * parts[2]
    return loss, parts.detach()


def value_target(
    encoder: Parameters,  # all three: target networks
    policy: Parameters,
    value: Parameters,
    last_states: Tensor,  # (batch, *state_shape), behind the window's rewards
    rewards: Tensor,  # (batch, horizon)
    alive: Tensor,  # (batch, horizon + 1)
    noise: Noise,
    reward_scale: Tensor,  # ()
    target_reward_scale: Tensor,  # (), the scale the target values were learned at
    h: Hyperparameters,
) -> Tensor:
    """(batch,)"""
    zs = encode_state(encoder, last_states)
    actions = target_actions(pre_activations(policy, zs), noise, h)
    bootstrap = values(value, encode_pair(encoder, zs, actions)).amin(0)
    returns, bootstrap_weight = multi_step_return(rewards, alive, h.discount)
    return (returns + bootstrap_weight * target_reward_scale * bootstrap) / reward_scale


def value_loss(value: Parameters, zsa: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The loss, each sample's larger TD error (batch,), and the mean value."""
    q = values(value, zsa)  # (critics, batch)
    loss = F.smooth_l1_loss(q, target.expand_as(q))
    return loss, (q - target).abs().amax(0).detach(), q.mean().detach()


def policy_loss(
    policy: Parameters, encoder: Parameters, value: Parameters, zs: Tensor, noise: Noise, h: Hyperparameters
) -> Tensor:
    """Differentiated for the policy alone; the gradient reaches it through Q and g."""
    pre = pre_activations(policy, zs)
    q = values(value, encode_pair(encoder, zs, policy_actions(pre, noise, h)))
    return h.pre_activation_weight * pre.square().mean() - q.mean()
