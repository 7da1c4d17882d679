"""The three losses of MR.Q (paper, section 4.2): pure functions of one agent, with the noise passed in."""

from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from mrq.algorithms.mrq.actions import evaluation_actions, policy_actions, target_actions
from mrq.algorithms.mrq.batch import Batch, RewardScales
from mrq.algorithms.mrq.hyperparameters import Hyperparameters
from mrq.algorithms.mrq.networks import encode_pair, encode_state, pre_activations, values
from mrq.algorithms.mrq.two_hot import cross_entropy, two_hot
from mrq.algorithms.mrq.unroll import Predictions
from mrq.algorithms.observed import Observed
from mrq.algorithms.optimiser import Parameters
from mrq.algorithms.returns import multi_step_return
from mrq.algorithms.trained import Networks
from mrq.interface import Spec


class EncoderTargets(NamedTuple):
    """What the model's predictions aim at."""

    embeddings: Tensor  # (batch, horizon, state_embedding), the targets of the predicted zs
    rewards: Tensor  # (batch, horizon)
    alive: Tensor  # (batch, horizon + 1)
    terminal_weight: Tensor  # (), 0 until a termination was seen


def encoder_loss(
    predictions: Predictions, targets: EncoderTargets, bins: Tensor, h: Hyperparameters
) -> tuple[Tensor, Tensor]:
    """Returns the loss, and its dynamics, reward and terminal parts (3,), unweighted, summed over the unroll."""
    alive = targets.alive.T  # (horizon + 1, batch)
    errors = torch.stack(
        [
            (predictions.zs - targets.embeddings.transpose(0, 1)).square().mean(-1),
            _reward_errors(predictions.reward_logits, targets.rewards.T, bins, h),
            (predictions.terminals - (alive[:-1] - alive[1:])).square(),
        ]
    )  # (3, horizon, batch)
    parts = (errors * alive[:-1]).mean(-1).sum(-1)
    loss = h.dynamics_weight * parts[0] + h.reward_weight * parts[1] + targets.terminal_weight * parts[2]
    return loss, parts


def _reward_errors(logits: Tensor, rewards: Tensor, bins: Tensor, h: Hyperparameters) -> Tensor:
    if h.categorical_reward:
        return cross_entropy(logits, two_hot(rewards, bins))
    return (logits.squeeze(-1) - rewards).square()


def dynamics_targets(
    networks: Networks,  # target networks, or the encoder itself and the target policy
    states: Observed,
    allowed: Tensor,  # (batch, action_size) or (action_size,)
    spec: Spec,
    h: Hyperparameters,
) -> Tensor:
    """Returns what the dynamics loss aims at (batch, state_embedding): zs, or zsa with the policy's action."""
    encoder = networks["encoder"]
    zs = encode_state(encoder, states)
    if not h.state_action_target:
        return zs
    actions = evaluation_actions(pre_activations(networks["policy"], zs), {}, allowed, spec).detach()
    return encode_pair(encoder, zs, actions)


def value_target(
    targets: Networks,
    last_states: Observed,  # after the window's rewards
    allowed: Tensor,  # there, (batch, action_size) or (action_size,)
    batch: Batch,
    scales: RewardScales,
    spec: Spec,
    h: Hyperparameters,
) -> Tensor:
    """Returns what both critics aim at (batch,)."""
    zs = encode_state(targets["encoder"], last_states)
    actions = target_actions(pre_activations(targets["policy"], zs), batch.noise, allowed, spec, h)
    q = values(targets["value"], encode_pair(targets["encoder"], zs, actions))  # (critics, batch)
    bootstrap = q.amin(0) if h.minimum_target else q.mean(0)
    returns, bootstrap_weight = multi_step_return(batch.rewards, batch.alive, h.discount)
    return (returns + bootstrap_weight * scales.target * bootstrap) / scales.present


def value_loss(
    value: Parameters, zsa: Tensor, target: Tensor, h: Hyperparameters
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Returns the loss; each sample's larger TD error (batch,), and the mean value."""
    q = values(value, zsa)  # (critics, batch)
    loss = F.smooth_l1_loss if h.prioritised else F.mse_loss
    return loss(q, target.expand_as(q)), ((q - target).abs().amax(0), q.mean())


def policy_loss(
    policy: Parameters,
    networks: Networks,  # its encoder and value, which are not differentiated for
    zs: Tensor,  # (batch, state_embedding)
    allowed: Tensor,  # there, (batch, action_size) or (action_size,)
    batch: Batch,
    spec: Spec,
    h: Hyperparameters,
) -> Tensor:
    """Returns the loss, which is differentiated for the policy alone: the gradient reaches it through Q and g."""
    pre = pre_activations(policy, zs)
    actions = policy_actions(pre, batch.noise, allowed, spec, h)
    q = values(networks["value"], encode_pair(networks["encoder"], zs, actions))
    share = batch.own_actions / batch.own_actions.sum()
    penalty = (pre.square() * share).sum(-1).mean()
    return h.pre_activation_weight * penalty - q.mean()
