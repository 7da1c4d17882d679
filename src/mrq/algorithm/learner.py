"""P agents learning at once: parameters, optimisers, target sync, the burst of encoder updates, the RL update.

The losses are written for one agent; here they are `vmap`ped over a leading agent axis that every parameter, window
and noise tensor has. Nothing mixes agents: the sum of their losses is differentiated, each gradient stays its own.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mrq.algorithm.actions import evaluation_actions, exploring_actions
from mrq.algorithm.augmentation import shift
from mrq.algorithm.losses import encoder_loss, policy_loss, value_loss, value_target
from mrq.algorithm.networks import (
    Parameters,
    encode_pair,
    encode_state,
    initial_encoder,
    initial_policy,
    initial_value,
    pre_activations,
)
from mrq.algorithm.noise import Noise
from mrq.algorithm.two_hot import bin_locations
from mrq.hyperparameters import Hyperparameters
from mrq.interface import Spec, Windows

NETWORKS = ("encoder", "value", "policy")
ENCODER_LOSSES = ("dynamics_loss", "reward_loss", "terminal_loss")
METRICS = (*ENCODER_LOSSES, "value_loss", "value_mean", "policy_loss")


class Learner:
    def __init__(
        self,
        spec: Spec,
        hyperparameters: Hyperparameters,
        generators: Sequence[np.random.Generator],  # one an agent, for its initial parameters
        device: torch.device,
    ) -> None:
        self.spec, self.hyperparameters, self.device = spec, hyperparameters, device
        h, agents = hyperparameters, len(generators)
        initial = [(initial_encoder(g, spec, h), initial_value(g, h), initial_policy(g, spec, h)) for g in generators]
        self.networks: dict[str, Parameters] = {}
        for network, parameters in zip(NETWORKS, zip(*initial, strict=True), strict=True):
            self.networks[network] = {
                name: torch.stack([agent[name] for agent in parameters]).to(device).requires_grad_()
                for name in parameters[0]
            }
        self.targets = {
            network: {name: tensor.detach().clone() for name, tensor in parameters.items()}
            for network, parameters in self.networks.items()
        }
        rates = {
            "encoder": h.encoder_learning_rate,
            "value": h.value_learning_rate,
            "policy": h.policy_learning_rate,
        }
        self.optimisers = {
            network: _adamw(self.networks[network], rates[network], h.weight_decay) for network in NETWORKS
        }
        self.reward_scale = torch.ones(agents, device=device)
        self.target_reward_scale = torch.ones(agents, device=device)
        self.metrics = torch.zeros(agents, len(METRICS), device=device)  # of the latest updates
        self.bins = bin_locations(h.reward_bins, h.reward_range).to(device)
        # Encoder updates whose target embeddings are computed in one pass; images are large.
        self.chunk = 1 if spec.image else 10

        self.compiled = False

    def compile(self, on_failure: Callable[[], None]) -> None:
        """From now on, runs the costly parts of an update compiled; uncompiled again where that fails.

        They are compiled when first called, and change nothing themselves: a call that fails can be made again.
        """
        for name in ("_embed_targets", "_encoder_gradients", "_value_gradients", "_policy_gradients"):
            setattr(self, name, self._compiled_or_not(getattr(self, name), on_failure))
        self.compiled = True

    def _compiled_or_not(self, function: Callable[..., Any], on_failure: Callable[[], None]) -> Callable[..., Any]:
        compiled = torch.compile(function)

        def call(*arguments: Any) -> Any:
            if self.compiled:
                try:
                    return compiled(*arguments)
                except Exception:
                    self.compiled = False
                    on_failure()
            return function(*arguments)

        return call

    def sync_targets(self, mean_absolute_reward: Tensor) -> None:
        """Copies every network to its target, and takes up a new reward scale (agents,)."""
        for network in NETWORKS:
            targets = list(self.targets[network].values())
            torch._foreach_copy_(targets, [tensor.detach() for tensor in self.networks[network].values()])
        self.target_reward_scale.copy_(self.reward_scale)
        self.reward_scale.copy_(mean_absolute_reward.clamp(min=1e-8))

    def update_encoder(self, windows: Windows, noise: Noise, terminated_before: Tensor) -> None:
        """One update for each batch in `windows`; `terminated_before` (agents,): has a termination been seen?"""
        h = self.hyperparameters
        first_states, last_states = windows.states[:, :, 0], windows.states[:, :, 1:]
        zs_targets = self._embed_targets(self.targets["encoder"], last_states, noise)
        terminal_weight = h.terminal_weight * terminated_before
        for start in range(0, windows.slots.shape[1], h.batch_size):
            batch = slice(start, start + h.batch_size)
            first_noise = {name: tensor[:, batch, 0].contiguous() for name, tensor in noise.items()}
            gradients, self._metrics("dynamics_loss", "terminal_loss")[:] = self._encoder_gradients(
                self.networks["encoder"],
                first_states[:, batch].contiguous(),
                first_noise,
                zs_targets[:, batch].contiguous(),
                windows.actions[:, batch].contiguous(),
                windows.rewards[:, batch].contiguous(),
                windows.alive[:, batch].contiguous(),
                terminal_weight,
            )
            self._descend("encoder", gradients)

    def update_value_and_policy(self, windows: Windows, noise: Noise) -> Tensor:
        """One update of the value, then of the policy; returns the TD errors (agents, batch)."""
        gradients, td_errors, zs, self._metrics("value_loss", "value_mean")[:] = self._value_gradients(
            self.networks["value"],
            self.networks["encoder"],
            self.targets,
            windows.states,
            windows.actions[:, :, 0],
            windows.rewards,
            windows.alive,
            noise,
            self.reward_scale,
            self.target_reward_scale,
        )
        self._descend("value", gradients)
        gradients, self._metrics("policy_loss", "policy_loss")[:] = self._policy_gradients(
            self.networks["policy"], self.networks["encoder"], self.networks["value"], zs, noise
        )
        self._descend("policy", gradients)
        return td_errors

    @torch.no_grad()
    def explore(self, states: Tensor, noise: Noise) -> Tensor:
        """Training actions (agents, count, action_size) for states (agents, count, *state_shape)."""
        return exploring_actions(self._pre_activations(states), noise, self.hyperparameters)

    @torch.no_grad()
    def exploit(self, states: Tensor, noise: Noise) -> Tensor:
        """Evaluation actions (agents, count, action_size)."""
        return evaluation_actions(self._pre_activations(states), noise, self.spec.discrete)

    def state_of(self, agent: int) -> dict[str, Tensor]:
        """One agent's parameters, targets, optimiser moments and reward scales, and how often each network stepped."""
        tensors = {name: tensor[agent].detach().cpu() for name, tensor in self._per_agent().items()}
        for network in NETWORKS:
            tensors[f"steps.{network}"] = self._step_counts(network)[0].cpu()
        return tensors

    @torch.no_grad()
    def load_state_of(self, agent: int, tensors: dict[str, Tensor]) -> None:
        for name, tensor in self._per_agent().items():
            tensor[agent] = tensors[name].to(self.device)
        for network in NETWORKS:
            for count in self._step_counts(network):
                count.copy_(tensors[f"steps.{network}"])

    def _step_counts(self, network: str) -> list[Tensor]:
        """The optimiser's own count of its steps, one a parameter and all the same."""
        return [moments["step"] for moments in self.optimisers[network].state.values()]

    def _per_agent(self) -> dict[str, Tensor]:
        """Every tensor that has an agent axis and outlives an update, by name."""
        tensors = {
            "reward_scale": self.reward_scale,
            "target_reward_scale": self.target_reward_scale,
            "metrics": self.metrics,
        }
        for network in NETWORKS:
            for name, parameter in self.networks[network].items():
                moments = self.optimisers[network].state[parameter]
                tensors |= {
                    f"{network}.{name}": parameter,
                    f"target.{network}.{name}": self.targets[network][name],
                    f"mean.{network}.{name}": moments["exp_avg"],
                    f"square.{network}.{name}": moments["exp_avg_sq"],
                }
        return tensors

    def _pre_activations(self, states: Tensor) -> Tensor:
        zs = torch.vmap(encode_state)(self.networks["encoder"], states)
        return torch.vmap(pre_activations)(self.networks["policy"], zs)

    @torch.no_grad()
    def _embed_targets(self, encoder: Parameters, states: Tensor, noise: Noise) -> Tensor:
        """zs of states (agents, count, horizon, *state_shape) by the target encoder."""
        flat = states.flatten(1, 2)
        if "shift" in noise:
            flat = torch.vmap(shift)(flat, noise["shift"][:, :, 1:].flatten(1, 2))
        return torch.vmap(encode_state)(encoder, flat).view(*states.shape[:3], -1)

    def _encoder_gradients(
        self,
        encoder: Parameters,
        first_states: Tensor,
        noise: Noise,
        zs_targets: Tensor,
        actions: Tensor,
        rewards: Tensor,
        alive: Tensor,
        terminal_weight: Tensor,
    ) -> tuple[list[Tensor], Tensor]:
        if "shift" in noise:
            first_states = torch.vmap(shift)(first_states, noise["shift"])
        loss = partial(encoder_loss, bins=self.bins, h=self.hyperparameters)
        losses, parts = torch.vmap(loss)(encoder, first_states, zs_targets, actions, rewards, alive, terminal_weight)
        return _gradients(losses, encoder), parts

    def _value_gradients(
        self,
        value: Parameters,
        encoder: Parameters,
        targets: dict[str, Parameters],
        states: Tensor,  # (agents, batch, 2, *state_shape): a window's first state, and the one behind its rewards
        actions: Tensor,
        rewards: Tensor,
        alive: Tensor,
        noise: Noise,
        reward_scale: Tensor,
        target_reward_scale: Tensor,
    ) -> tuple[list[Tensor], Tensor, Tensor, Tensor]:
        first, last = states[:, :, 0], states[:, :, 1]
        if "shift" in noise:
            first = torch.vmap(shift)(first, noise["shift"][:, :, 0])
            last = torch.vmap(shift)(last, noise["shift"][:, :, 1])
        with torch.no_grad():
            target = torch.vmap(partial(value_target, h=self.hyperparameters))(
                targets["encoder"],
                targets["policy"],
                targets["value"],
                last,
                rewards,
                alive,
                noise,
                reward_scale,
                target_reward_scale,
            )
            zs = torch.vmap(encode_state)(encoder, first)
            zsa = torch.vmap(encode_pair)(encoder, zs, actions)
        losses, td_errors, value_mean = torch.vmap(value_loss)(value, zsa, target)
        gradients = _clip(_gradients(losses, value), self.hyperparameters.value_gradient_clip)
        return gradients, td_errors, zs, torch.stack([losses.detach(), value_mean], 1)

    def _policy_gradients(
        self, policy: Parameters, encoder: Parameters, value: Parameters, zs: Tensor, noise: Noise
    ) -> tuple[list[Tensor], Tensor]:
        loss = partial(policy_loss, h=self.hyperparameters)
        losses = torch.vmap(loss)(policy, _detached(encoder), _detached(value), zs, noise)
        return _gradients(losses, policy), losses.detach()[:, None]

    def _metrics(self, first: str, last: str) -> Tensor:
        """The latest metrics from `first` to `last` (agents, count), to be written to."""
        return self.metrics[:, METRICS.index(first) : METRICS.index(last) + 1]

    def _descend(self, network: str, gradients: Sequence[Tensor]) -> None:
        for parameter, gradient in zip(self.networks[network].values(), gradients, strict=True):
            parameter.grad = gradient
        self.optimisers[network].step()


def _adamw(parameters: Parameters, rate: float, weight_decay: float) -> torch.optim.AdamW:
    """With its moments in place from the start, so that they can be saved and loaded at any time."""
    optimiser = torch.optim.AdamW(parameters.values(), lr=rate, weight_decay=weight_decay, fused=True)
    for parameter in parameters.values():
        optimiser.state[parameter] = {
            "step": torch.zeros((), device=parameter.device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
    return optimiser


def _gradients(losses: Tensor, parameters: Parameters) -> list[Tensor]:
    return [g.contiguous() for g in torch.autograd.grad(losses.sum(), list(parameters.values()))]


def _clip(gradients: list[Tensor], norm: float) -> list[Tensor]:
    """Each agent's gradient scaled so that its norm is at most `norm`."""
    squares = torch.stack([gradient.square().flatten(1).sum(1) for gradient in gradients]).sum(0)  # (agents,)
    scale = (norm / (squares.sqrt() + 1e-6)).clamp(max=1)
    return [gradient * scale.view(-1, *[1] * (gradient.ndim - 1)) for gradient in gradients]


def _detached(parameters: Parameters) -> Parameters:
    return {name: tensor.detach() for name, tensor in parameters.items()}
