"""The parameters of P agents, what they learn with, and their updates, over a leading agent axis.

What an agent computes is written for one agent, in updates.py; here it runs over a leading agent axis that every
parameter, window and noise tensor has. Nothing mixes agents: each has a gradient of its own.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mrq.algorithms.mrq import updates
from mrq.algorithms.mrq.actions import random_actions
from mrq.algorithms.mrq.batch import Batch, Constants, RewardScales
from mrq.algorithms.mrq.hyperparameters import SMALL_WIDTH, Hyperparameters
from mrq.algorithms.mrq.networks import initial_networks
from mrq.algorithms.mrq.noise import Noise
from mrq.algorithms.mrq.two_hot import bin_locations
from mrq.algorithms.observed import Unpacked, allowed_actions
from mrq.algorithms.optimiser import Parameters, descend
from mrq.algorithms.trained import Networks, Trained
from mrq.execution import Function, SideStream, over_agents
from mrq.interface import Array, Spec, Windows, common_spec
from mrq.restoring import restore

NETWORKS = ("encoder", "value", "policy")
METRICS = ("dynamics_loss", "reward_loss", "terminal_loss", "value_loss", "value_mean", "policy_loss")


class Agents:
    """P agents: networks, target networks, optimiser moments, reward scales, and one update at a time."""

    def __init__(
        self,
        specs: Sequence[Spec],  # one per agent
        hyperparameters: Hyperparameters,
        generators: Sequence[np.random.Generator],  # one per agent, for its initial parameters
        device: torch.device,
        dtype: torch.dtype = torch.float32,  # in which matrices are multiplied
    ) -> None:
        self.specs, self.spec, self.hyperparameters, self.device = specs, common_spec(specs), hyperparameters, device
        h, agents = hyperparameters, len(specs)
        initial = [initial_networks(g, spec, h) for spec, g in zip(specs, generators, strict=True)]
        self.trained = trained = Trained(initial, targets=NETWORKS, device=device)
        self.networks, self.targets, self.moments = trained.networks, trained.targets, trained.moments
        self.reward_scale = torch.ones(agents, device=device)
        self.target_reward_scale = torch.ones(agents, device=device)
        self.metrics = torch.zeros(agents, len(METRICS), device=device)  # of the latest updates
        self.bins = bin_locations(h.reward_bins, h.reward_range).to(device)
        sizes = torch.tensor([spec.action_size for spec in specs])
        self._own_actions_on_host = torch.arange(self.spec.action_size) < sizes[:, None]  # (agents, action_size)
        self.own_actions = self._own_actions_on_host.to(device)
        self._beside = SideStream(device)
        constants = Constants(h, self.spec, self.bins, dtype)
        self.functions = self._functions(constants)
        # For any number of states, so it is not compiled.
        self._act = self._over_agents(partial(updates.act, constants=constants))

    def _functions(self, constants: Constants) -> dict[str, Function]:
        """Returns what an agent computes, by name, over all agents."""
        computed: dict[str, Any] = {
            "explore": updates.explore,
            "value_targets": updates.value_targets,
            "embed_pairs": updates.embed_pairs,
            "policy_gradients": updates.policy_gradients,
        }
        if constants.h.model_based:
            computed |= {
                "embed_targets": updates.embed_targets,
                "encoder_gradients": updates.encoder_gradients,
                "value_gradients": updates.value_gradients,
            }
        else:
            computed["end_to_end_gradients"] = updates.end_to_end_gradients
        functions = {name: self._over_agents(partial(f, constants=constants)) for name, f in computed.items()}
        h = constants.h
        rates = (h.encoder_learning_rate, h.value_learning_rate, h.policy_learning_rate)
        for network, rate in zip(NETWORKS, rates, strict=True):
            step = partial(descend, rate=rate, weight_decay=h.weight_decay)
            functions[f"descend_{network}"] = Function(step, changes_arguments=True)
        return functions

    def _over_agents(self, function: Any) -> Function:
        # Convolutions of several agents gain nothing side by side; a GPU multiplies plain matrices best. As written, so
        # does a CPU if they are small; the paper's stay as they are there, so that their numbers do.
        alone, on_gpu = len(self.specs) == 1, self.device.type == "cuda"
        one_by_one = bool(self.spec.images) or (alone and on_gpu)
        small = self.hyperparameters.hidden_width <= SMALL_WIDTH
        return over_agents(function, one_by_one, as_written=alone and small)

    @torch.no_grad()
    def sync_targets(self, mean_absolute_reward: Tensor) -> None:
        """Copies every network to its target, and sets a new reward scale (agents,)."""
        for network in NETWORKS:
            torch._foreach_copy_(list(self.targets[network].values()), list(self.networks[network].values()))
        if self.hyperparameters.reward_scaling:
            self.target_reward_scale.copy_(self.reward_scale)
            self.reward_scale.copy_(mean_absolute_reward.clamp(min=1e-8))

    @torch.no_grad()
    def update_encoder(self, windows: Windows, noise: Noise, terminated_before: Tensor) -> None:
        """Does one update per batch in `windows`; `terminated_before` (agents,): has a termination been seen?"""
        h = self.hyperparameters
        following = windows.states[:, :, 1:]
        if h.target_encoder:
            following = self.functions["embed_targets"](self.targets, following, noise, self.own_actions)
        terminal_weight = h.terminal_weight * terminated_before
        for start in range(0, windows.slots.shape[1], h.batch_size):
            part = slice(start, start + h.batch_size)
            batch = Batch(
                states=windows.states[:, part, :1].contiguous(),
                actions=windows.actions[:, part].contiguous(),
                rewards=windows.rewards[:, part].contiguous(),
                alive=windows.alive[:, part].contiguous(),
                noise={name: tensor[:, part].contiguous() for name, tensor in noise.items()},
                own_actions=self.own_actions,
            )
            gradients, self._metrics("dynamics_loss", "terminal_loss")[:] = self.functions["encoder_gradients"](
                self.networks["encoder"],
                self.targets["policy"],
                batch,
                following[:, part].contiguous(),
                terminal_weight,
            )
            self._descend("encoder", gradients)

    @torch.no_grad()
    def update_value_and_policy(self, windows: Windows, noise: Noise) -> Tensor:
        """Does one update of the value, then of the policy; returns the TD errors (agents, batch)."""
        f, networks = self.functions, self.networks
        batch = Batch(windows.states, windows.actions, windows.rewards, windows.alive, noise, self.own_actions)
        self._beside.follow()
        with self._beside.work():
            target = f["value_targets"](self.targets, batch, RewardScales(self.reward_scale, self.target_reward_scale))
        metrics = self._metrics("value_loss", "value_mean")
        if self.hyperparameters.model_based:
            zs, zsa = f["embed_pairs"](networks["encoder"], batch)
            self._beside.join()
            gradients, td_errors, metrics[:] = f["value_gradients"](networks["value"], zsa, target)
        else:
            self._beside.join()
            gradients, of_encoder, td_errors, metrics[:] = f["end_to_end_gradients"](
                networks["value"], networks["encoder"], batch, target
            )
            self._descend("encoder", of_encoder)
            zs, _ = f["embed_pairs"](networks["encoder"], batch)
        self._descend("value", gradients)
        gradients, self._metrics("policy_loss", "policy_loss")[:] = f["policy_gradients"](networks, zs, batch)
        self._descend("policy", gradients)
        errors: Tensor = td_errors
        return errors

    @torch.no_grad()
    def explore(self, networks: Networks, states: Tensor, noise: Noise) -> Tensor:
        """Returns training actions (agents, count, action_size) for states (agents, count, *state_shape).

        `networks` are these agents' own, or their targets.
        """
        actions: Tensor = self.functions["explore"](networks, states, noise, self.own_actions)
        return actions

    def random_actions(self, noise: Noise, states: Tensor) -> Tensor:
        """Returns random actions (agents, count, action_size) for states (agents, count, *state_shape), on the host."""
        if not self.spec.masked:
            return noise["random_actions"]
        own = self._own_actions_on_host.repeat_interleave(states.shape[1], 0)
        allowed = allowed_actions(states.flatten(0, 1), self.spec, own)
        return random_actions(noise, allowed.view(*states.shape[:2], -1), self.spec)

    @torch.no_grad()
    def act(self, states: Tensor | Unpacked, noise: Noise) -> Tensor:
        """Returns evaluation actions (agents, count, action_size)."""
        actions: Tensor = self._act(self.networks, states, noise, self.own_actions)
        return actions

    def parameters_of(self, agent: int) -> int:
        """Returns how many numbers one agent learns."""
        return self.trained.parameters_of(agent)

    def state_of(self, agent: int) -> dict[str, Tensor]:
        """Returns one agent's networks, reward scales and metrics."""
        others = {name: tensor[agent].cpu().contiguous() for name, tensor in self._scales_and_metrics().items()}
        return self.trained.state_of(agent) | others

    def load_state_of(self, agent: int, tensors: Mapping[str, Array | Tensor]) -> None:
        """Restores what `state_of` returned."""
        self.trained.load_state_of(agent, tensors)
        for name, tensor in self._scales_and_metrics().items():
            restore(tensor[agent], tensors, name)

    def _scales_and_metrics(self) -> dict[str, Tensor]:
        return {
            "reward_scale": self.reward_scale,
            "target_reward_scale": self.target_reward_scale,
            "metrics": self.metrics,
        }

    def _metrics(self, first: str, last: str) -> Tensor:
        """Returns the latest metrics from `first` to `last` (agents, count), to be written to."""
        return self.metrics[:, METRICS.index(first) : METRICS.index(last) + 1]

    def _descend(self, network: str, gradients: Parameters) -> None:
        self.functions[f"descend_{network}"](self.networks[network], gradients, self.moments[network])
