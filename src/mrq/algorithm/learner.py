"""P agents learning at once: parameters, optimisation, target sync, the burst of encoder updates, the RL update.

What an agent computes is written for one agent, in updates.py; here it is run over a leading agent axis that every
parameter, window and noise tensor has. Nothing mixes agents: each has a gradient of its own.

Agents may differ in the sizes of their observations and actions. Their parameters are then padded with zeros, which
meet nothing but zeros in what is observed, drawn and taken, and so stay zeros: each computes what it would alone.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from mrq.algorithm import updates
from mrq.algorithm.actions import evaluation_actions
from mrq.algorithm.networks import Parameters, initial_encoder, initial_policy, initial_value
from mrq.algorithm.noise import Noise
from mrq.algorithm.optimiser import descend, initial_moments
from mrq.algorithm.two_hot import bin_locations
from mrq.execution import Function, OnFailure, Side, compiled, one_by_one, side_by_side
from mrq.hyperparameters import Hyperparameters
from mrq.interface import Spec, Windows, common_spec
from mrq.padding import stack_padded, within

NETWORKS = ("encoder", "value", "policy")
ENCODER_LOSSES = ("dynamics_loss", "reward_loss", "terminal_loss")
METRICS = (*ENCODER_LOSSES, "value_loss", "value_mean", "policy_loss")


class Learner:
    def __init__(
        self,
        specs: Sequence[Spec],  # one an agent
        hyperparameters: Hyperparameters,
        generators: Sequence[np.random.Generator],  # one an agent, for its initial parameters
        device: torch.device,
        dtype: torch.dtype = torch.float32,  # in which matrices are multiplied
    ) -> None:
        self.specs, self.spec, self.hyperparameters, self.device = specs, common_spec(specs), hyperparameters, device
        h, agents = hyperparameters, len(specs)
        initial = [_initial(spec, h, g) for spec, g in zip(specs, generators, strict=True)]
        self._shapes = [{n: {k: t.shape for k, t in p.items()} for n, p in agent.items()} for agent in initial]
        self.networks: dict[str, Parameters] = {
            network: {name: stack_padded([agent[network][name] for agent in initial]).to(device) for name in parameters}
            for network, parameters in initial[0].items()
        }
        self.targets = {
            network: {name: tensor.clone() for name, tensor in parameters.items()}
            for network, parameters in self.networks.items()
        }
        rates = {
            "encoder": h.encoder_learning_rate,
            "value": h.value_learning_rate,
            "policy": h.policy_learning_rate,
        }
        self.moments = {network: initial_moments(parameters) for network, parameters in self.networks.items()}
        self.descents: dict[str, Function] = {
            network: partial(descend, rate=rates[network], weight_decay=h.weight_decay) for network in NETWORKS
        }
        self._descents = self.descents
        self.reward_scale = torch.ones(agents, device=device)
        self.target_reward_scale = torch.ones(agents, device=device)
        self.metrics = torch.zeros(agents, len(METRICS), device=device)  # of the latest updates
        self.bins = bin_locations(h.reward_bins, h.reward_range).to(device)
        sizes = torch.tensor([spec.action_size for spec in specs])
        self.own_actions = (torch.arange(self.spec.action_size) < sizes[:, None]).to(device)  # (agents, action_size)
        # Encoder updates whose windows are drawn and target embeddings computed in one pass; images are large.
        self.chunk = 1 if self.spec.image else min(10, h.target_period)
        self._side = Side(device)
        # What one agent computes; `_work` holds the same for all of them.
        self.functions: dict[str, Function] = {
            "value_targets": partial(updates.value_targets, h=h, dtype=dtype),
            "embed_pairs": partial(updates.embed_pairs, dtype=dtype),
            "policy_gradients": partial(updates.policy_gradients, h=h, dtype=dtype),
            "explore": partial(updates.explore, h=h, dtype=dtype),
        }
        if h.model_based:
            kind = self.spec.discrete
            self.functions |= {
                "embed_targets": partial(updates.embed_targets, discrete=kind, h=h, dtype=dtype),
                "encoder_gradients": partial(
                    updates.encoder_gradients, bins=self.bins, discrete=kind, h=h, dtype=dtype
                ),
                "value_gradients": partial(updates.value_gradients, h=h, dtype=dtype),
            }
        else:
            self.functions["end_to_end_gradients"] = partial(updates.end_to_end_gradients, h=h, dtype=dtype)
        # Convolutions of several agents gain nothing side by side; a GPU multiplies plain matrices best.
        self._one_by_one = self.spec.image or (agents == 1 and device.type == "cuda")
        self._work = {name: self._over_agents(function) for name, function in self.functions.items()}
        self._policy_outputs = self._over_agents(
            partial(updates.policy_outputs, dtype=dtype)
        )  # for any number of states
        self.compiled = False

    def compile(self, on_failure: OnFailure, on_success: Callable[[], None] = lambda: None) -> None:
        """From now on, runs the costly parts of an update compiled; uncompiled again where that fails."""

        def failed(error: Exception) -> None:
            self.compiled = False
            on_failure(error)

        def faster(function: Function) -> Function:
            return compiled(function, failed, on_success)

        self._work = {name: self._over_agents(function, faster) for name, function in self.functions.items()}
        if self.device.type == "cuda":  # on a CPU that gains nothing
            self._descents = {
                network: compiled(descent, failed, changes_arguments=True) for network, descent in self.descents.items()
            }
        self.compiled = True

    def _over_agents(self, function: Function, faster: Callable[[Function], Function] = lambda f: f) -> Function:
        """A function of one agent for all of them; what makes it `faster` sees one agent, or all side by side."""
        return one_by_one(faster(function)) if self._one_by_one else faster(side_by_side(function))

    @torch.no_grad()
    def sync_targets(self, mean_absolute_reward: Tensor) -> None:
        """Copies every network to its target, and takes up a new reward scale (agents,)."""
        for network in NETWORKS:
            torch._foreach_copy_(list(self.targets[network].values()), list(self.networks[network].values()))
        if self.hyperparameters.reward_scaling:
            self.target_reward_scale.copy_(self.reward_scale)
            self.reward_scale.copy_(mean_absolute_reward.clamp(min=1e-8))

    @torch.no_grad()
    def update_encoder(self, windows: Windows, noise: Noise, terminated_before: Tensor) -> None:
        """One update for each batch in `windows`; `terminated_before` (agents,): has a termination been seen?"""
        h = self.hyperparameters
        first_states, following = windows.states[:, :, 0], windows.states[:, :, 1:]
        if h.target_encoder:
            following = self._work["embed_targets"](
                self.targets["encoder"], self.targets["policy"], following, noise, self.own_actions
            )
        terminal_weight = h.terminal_weight * terminated_before
        for start in range(0, windows.slots.shape[1], h.batch_size):
            batch = slice(start, start + h.batch_size)
            gradients, self._metrics("dynamics_loss", "terminal_loss")[:] = self._work["encoder_gradients"](
                self.networks["encoder"],
                self.targets["policy"],
                first_states[:, batch].contiguous(),
                {name: tensor[:, batch].contiguous() for name, tensor in noise.items()},
                following[:, batch].contiguous(),
                self.own_actions,
                windows.actions[:, batch].contiguous(),
                windows.rewards[:, batch].contiguous(),
                windows.alive[:, batch].contiguous(),
                terminal_weight,
            )
            self._descend("encoder", gradients)

    @torch.no_grad()
    def update_value_and_policy(self, windows: Windows, noise: Noise) -> Tensor:
        """One update of the value, then of the policy; returns the TD errors (agents, batch)."""
        self._side.follow()
        with self._side.work():
            target = self._work["value_targets"](
                self.targets["encoder"],
                self.targets["policy"],
                self.targets["value"],
                windows.states[:, :, 1],
                windows.rewards,
                windows.alive,
                noise,
                self.own_actions,
                self.reward_scale,
                self.target_reward_scale,
            )
        pairs = (self.networks["encoder"], windows.states[:, :, 0], windows.actions[:, :, 0], noise)
        metrics = self._metrics("value_loss", "value_mean")
        if self.hyperparameters.model_based:
            zs, zsa = self._work["embed_pairs"](*pairs)
            self._side.join()
            gradients, td_errors, metrics[:] = self._work["value_gradients"](self.networks["value"], zsa, target)
        else:
            self._side.join()
            gradients, of_encoder, td_errors, metrics[:] = self._work["end_to_end_gradients"](
                self.networks["value"], *pairs, target
            )
            self._descend("encoder", of_encoder)
            zs, _ = self._work["embed_pairs"](*pairs)
        self._descend("value", gradients)
        gradients, self._metrics("policy_loss", "policy_loss")[:] = self._work["policy_gradients"](
            self.networks["policy"], self.networks["encoder"], self.networks["value"], zs, noise, self.own_actions
        )
        self._descend("policy", gradients)
        errors: Tensor = td_errors
        return errors

    @torch.no_grad()
    def explore(self, networks: dict[str, Parameters], states: Tensor, noise: Noise) -> Tensor:
        """Training actions (agents, count, action_size) for states (agents, count, *state_shape).

        `networks` are this learner's own, or its targets.
        """
        actions: Tensor = self._work["explore"](
            networks["encoder"], networks["policy"], states, noise, self.own_actions
        )
        return actions

    @torch.no_grad()
    def exploit(self, states: Tensor, noise: Noise) -> Tensor:
        """Evaluation actions (agents, count, action_size)."""
        pre = self._policy_outputs(self.networks["encoder"], self.networks["policy"], states)
        return evaluation_actions(pre, noise, self.own_actions[:, None], self.spec.discrete)

    def parameters_of(self, agent: int) -> int:
        """How many numbers one agent learns."""
        return sum(shape.numel() for network in self._shapes[agent].values() for shape in network.values())

    def state_of(self, agent: int) -> dict[str, Tensor]:
        """One agent's parameters, targets, optimiser moments and reward scales, and how often each network stepped."""
        tensors = {name: tensor.cpu().contiguous() for name, tensor in self._own(agent).items()}
        for network in NETWORKS:
            tensors[f"steps.{network}"] = self._step_counts(network)[0].cpu()
        return tensors

    def load_state_of(self, agent: int, tensors: dict[str, Tensor]) -> None:
        for name, tensor in self._own(agent).items():
            tensor.copy_(tensors[name])
        for network in NETWORKS:
            for count in self._step_counts(network):
                count.copy_(tensors[f"steps.{network}"])

    def _step_counts(self, network: str) -> list[Tensor]:
        """One a parameter, and all the same."""
        return list(self.moments[network].steps.values())

    def _own(self, agent: int) -> dict[str, Tensor]:
        """Every tensor of one agent that outlives an update, by name, without what pads it."""
        tensors = {name: getattr(self, name)[agent] for name in ("reward_scale", "target_reward_scale", "metrics")}
        for network in NETWORKS:
            for name, parameter in self.networks[network].items():
                own: tuple[int | slice, ...] = (agent, *within(self._shapes[agent][network][name]))
                tensors |= {
                    f"{network}.{name}": parameter[own],
                    f"target.{network}.{name}": self.targets[network][name][own],
                    f"mean.{network}.{name}": self.moments[network].means[name][own],
                    f"square.{network}.{name}": self.moments[network].squares[name][own],
                }
        return tensors

    def _metrics(self, first: str, last: str) -> Tensor:
        """The latest metrics from `first` to `last` (agents, count), to be written to."""
        return self.metrics[:, METRICS.index(first) : METRICS.index(last) + 1]

    def _descend(self, network: str, gradients: Parameters) -> None:
        self._descents[network](self.networks[network], gradients, self.moments[network])


def _initial(spec: Spec, h: Hyperparameters, generator: np.random.Generator) -> dict[str, Parameters]:
    return {
        "encoder": initial_encoder(generator, spec, h),
        "value": initial_value(generator, h),
        "policy": initial_policy(generator, spec, h),
    }
