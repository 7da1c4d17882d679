"""What the critic and the actor learn: pure functions of one agent's networks and batch."""

from torch import Tensor

from mrq.algorithms.drqv2.batch import Batch
from mrq.algorithms.drqv2.hyperparameters import Hyperparameters
from mrq.algorithms.drqv2.networks import mean_actions, values
from mrq.algorithms.optimiser import Parameters
from mrq.algorithms.returns import multi_step_return

LARGEST_ACTION = 1 - 1e-6


def exploring_actions(means: Tensor, noise: Tensor, std: Tensor) -> Tensor:
    """Returns the actions that agents take in training."""
    return (means + std * noise).clamp(-LARGEST_ACTION, LARGEST_ACTION)


def smoothed_actions(means: Tensor, noise: Tensor, std: Tensor, clip: float) -> Tensor:
    """Adds clipped noise. The gradient is that of the means, even where an action is clamped to its range."""
    actions = means + (std * noise).clamp(-clip, clip)
    clamped = actions.clamp(-LARGEST_ACTION, LARGEST_ACTION)
    return clamped.detach() + (actions - actions.detach())


def critic_target(
    actor: Parameters, target_critic: Parameters, encoded: Tensor, batch: Batch, h: Hyperparameters
) -> Tensor:
    """Returns what both critics aim at (batch,): multi-step returns, and the smaller value of the last states.

    encoded: (batch, encoded_size), the last states.
    """
    actions = smoothed_actions(mean_actions(actor, encoded), batch.noise["target_noise"], batch.std, h.noise_clip)
    returns, weight = multi_step_return(batch.rewards, batch.alive, h.discount)
    return returns + weight * values(target_critic, encoded, actions).amin(0)


def critic_loss(critic: Parameters, encoded: Tensor, actions: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the sum of both critics' mean-squared errors, and their mean value."""
    predicted = values(critic, encoded, actions)
    return (predicted - target).square().mean(1).sum(), predicted.mean()


def actor_loss(actor: Parameters, critic: Parameters, encoded: Tensor, batch: Batch, h: Hyperparameters) -> Tensor:
    """Returns minus the mean of the smaller value of the actor's noisy actions in the encoded first states."""
    actions = smoothed_actions(mean_actions(actor, encoded), batch.noise["actor_noise"], batch.std, h.noise_clip)
    return -values(critic, encoded, actions).amin(0).mean()
