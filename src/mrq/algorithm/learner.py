"""P agents learning at once: parameters, optimisers, target sync, the burst of encoder updates, the RL update.

The losses are written for one agent; here they are `vmap`ped over a leading agent axis that every parameter, window
and noise tensor has. Nothing mixes agents: each has a gradient of its own.

Agents may differ in the sizes of their observations and actions. Their parameters are then padded with zeros, which
meet nothing but zeros in what is observed, drawn and taken, and so stay zeros: each computes what it would alone.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from mrq.algorithm.actions import evaluation_actions, exploring_actions
from mrq.algorithm.augmentation import shift
from mrq.algorithm.losses import EncoderTargets, encoder_loss, policy_loss, value_loss, value_target
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
from mrq.algorithm.unroll import unrolled_gradients
from mrq.execution import Compiled
from mrq.hyperparameters import Hyperparameters
from mrq.interface import Spec, Windows, common_spec

NETWORKS = ("encoder", "value", "policy")
ENCODER_LOSSES = ("dynamics_loss", "reward_loss", "terminal_loss")
METRICS = (*ENCODER_LOSSES, "value_loss", "value_mean", "policy_loss")
COMPILED = (
    "_embed_targets",
    "_encoder_gradients",
    "_value_targets",
    "_embed_pairs",
    "_value_gradients",
    "_policy_gradients",
    "_exploring_actions",
)


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
        self.dtype = dtype
        h, agents = hyperparameters, len(specs)
        initial = [_initial(spec, h, g) for spec, g in zip(specs, generators, strict=True)]
        self._shapes = [{n: {k: t.shape for k, t in p.items()} for n, p in agent.items()} for agent in initial]
        self.networks: dict[str, Parameters] = {
            network: {name: _stacked([agent[network][name] for agent in initial]).to(device) for name in parameters}
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
        self.optimisers = {
            network: _adamw(self.networks[network], rates[network], h.weight_decay) for network in NETWORKS
        }
        self.reward_scale = torch.ones(agents, device=device)
        self.target_reward_scale = torch.ones(agents, device=device)
        self.metrics = torch.zeros(agents, len(METRICS), device=device)  # of the latest updates
        self.bins = bin_locations(h.reward_bins, h.reward_range).to(device)
        sizes = torch.tensor([spec.action_size for spec in specs])
        self.own_actions = (torch.arange(self.spec.action_size) < sizes[:, None]).to(device)  # (agents, action_size)
        # Encoder updates whose windows are drawn and target embeddings computed in one pass; images are large.
        self.chunk = 1 if self.spec.image else 10
        self._side = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.compiled = False

    def compile(self, on_failure: Callable[[], None]) -> None:
        """From now on, runs the costly parts of an update compiled; uncompiled again where that fails."""

        def failed() -> None:
            if self.compiled:
                self.compiled = False
                on_failure()

        for name in COMPILED:
            setattr(self, name, Compiled(getattr(self, name), failed))
        self.compiled = True

    @torch.no_grad()
    def sync_targets(self, mean_absolute_reward: Tensor) -> None:
        """Copies every network to its target, and takes up a new reward scale (agents,)."""
        for network in NETWORKS:
            torch._foreach_copy_(list(self.targets[network].values()), list(self.networks[network].values()))
        self.target_reward_scale.copy_(self.reward_scale)
        self.reward_scale.copy_(mean_absolute_reward.clamp(min=1e-8))

    @torch.no_grad()
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

    @torch.no_grad()
    def update_value_and_policy(self, windows: Windows, noise: Noise) -> Tensor:
        """One update of the value, then of the policy; returns the TD errors (agents, batch)."""
        with self._beside():
            target = self._value_targets(
                self.targets,
                windows.states[:, :, 1],
                windows.rewards,
                windows.alive,
                noise,
                self.reward_scale,
                self.target_reward_scale,
            )
        zs, zsa = self._embed_pairs(self.networks["encoder"], windows.states[:, :, 0], windows.actions[:, :, 0], noise)
        self._join()
        gradients, td_errors, self._metrics("value_loss", "value_mean")[:] = self._value_gradients(
            self.networks["value"], zsa, target
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
        actions: Tensor = self._exploring_actions(self.networks["encoder"], self.networks["policy"], states, noise)
        return actions

    @torch.no_grad()
    def exploit(self, states: Tensor, noise: Noise) -> Tensor:
        """Evaluation actions (agents, count, action_size)."""
        pre = self._pre_activations(self.networks["encoder"], self.networks["policy"], states)
        return evaluation_actions(pre, noise, self.own_actions[:, None], self.spec.discrete)

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
        """The optimiser's own count of its steps, one a parameter and all the same."""
        return [moments["step"] for moments in self.optimisers[network].state.values()]

    def _own(self, agent: int) -> dict[str, Tensor]:
        """Every tensor of one agent that outlives an update, by name, without what pads it."""
        tensors = {name: getattr(self, name)[agent] for name in ("reward_scale", "target_reward_scale", "metrics")}
        for network in NETWORKS:
            for name, parameter in self.networks[network].items():
                own: tuple[int | slice, ...] = (agent, *_within(self._shapes[agent][network][name]))
                moments = self.optimisers[network].state[parameter]
                tensors |= {
                    f"{network}.{name}": parameter[own],
                    f"target.{network}.{name}": self.targets[network][name][own],
                    f"mean.{network}.{name}": moments["exp_avg"][own],
                    f"square.{network}.{name}": moments["exp_avg_sq"][own],
                }
        return tensors

    def _exploring_actions(self, encoder: Parameters, policy: Parameters, states: Tensor, noise: Noise) -> Tensor:
        pre = self._pre_activations(encoder, policy, states)
        return exploring_actions(pre, noise, self.own_actions[:, None], self.hyperparameters)

    def _pre_activations(self, encoder: Parameters, policy: Parameters, states: Tensor) -> Tensor:
        zs = torch.vmap(encode_state)(self._rounded(encoder), states)
        return torch.vmap(pre_activations)(self._rounded(policy), zs)

    def _embed_targets(self, encoder: Parameters, states: Tensor, noise: Noise) -> Tensor:
        """zs of states (agents, count, horizon, *state_shape) by the target encoder."""
        flat = states.flatten(1, 2)
        if "shift" in noise:
            flat = torch.vmap(shift)(flat, noise["shift"][:, :, 1:].flatten(1, 2))
        return torch.vmap(encode_state)(self._rounded(encoder), flat).view(*states.shape[:3], -1)

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
    ) -> tuple[Parameters, Tensor]:
        if "shift" in noise:
            first_states = torch.vmap(shift)(first_states, noise["shift"])

        def of_one(
            encoder: Parameters, first_states: Tensor, actions: Tensor, *targets: Tensor
        ) -> tuple[Parameters, Tensor]:
            loss = partial(encoder_loss, targets=EncoderTargets(*targets), bins=self.bins, h=self.hyperparameters)
            return unrolled_gradients(loss, encoder, first_states, actions)

        return torch.vmap(of_one)(
            self._rounded(encoder), first_states, actions, zs_targets, rewards, alive, terminal_weight
        )

    def _value_targets(
        self,
        targets: dict[str, Parameters],
        last_states: Tensor,
        rewards: Tensor,
        alive: Tensor,
        noise: Noise,
        reward_scale: Tensor,
        target_reward_scale: Tensor,
    ) -> Tensor:
        """(agents, batch)"""
        if "shift" in noise:
            last_states = torch.vmap(shift)(last_states, noise["shift"][:, :, 1])
        return torch.vmap(partial(value_target, h=self.hyperparameters))(
            *(self._rounded(targets[network]) for network in ("encoder", "policy", "value")),
            last_states,
            rewards,
            alive,
            noise,
            self.own_actions,
            reward_scale,
            target_reward_scale,
        )

    def _embed_pairs(
        self, encoder: Parameters, first_states: Tensor, actions: Tensor, noise: Noise
    ) -> tuple[Tensor, Tensor]:
        """zs and zsa."""
        if "shift" in noise:
            first_states = torch.vmap(shift)(first_states, noise["shift"][:, :, 0])
        zs = torch.vmap(encode_state)(self._rounded(encoder), first_states)
        return zs, torch.vmap(encode_pair)(self._rounded(encoder), zs, actions)

    def _value_gradients(self, value: Parameters, zsa: Tensor, target: Tensor) -> tuple[Parameters, Tensor, Tensor]:
        differentiated = torch.func.grad_and_value(value_loss, has_aux=True)
        gradients, (losses, (td_errors, value_mean)) = torch.vmap(differentiated)(self._rounded(value), zsa, target)
        clipped = _clip(gradients, self.hyperparameters.value_gradient_clip)
        return clipped, td_errors, torch.stack([losses, value_mean], 1)

    def _policy_gradients(
        self, policy: Parameters, encoder: Parameters, value: Parameters, zs: Tensor, noise: Noise
    ) -> tuple[Parameters, Tensor]:
        differentiated = torch.func.grad_and_value(partial(policy_loss, h=self.hyperparameters))
        gradients, losses = torch.vmap(differentiated)(
            *map(self._rounded, (policy, encoder, value)), zs, noise, self.own_actions
        )
        return gradients, losses[:, None]

    def _rounded(self, parameters: Parameters) -> Parameters:
        """In the precision in which matrices are multiplied."""
        return {name: tensor.to(self.dtype) for name, tensor in parameters.items()}

    def _metrics(self, first: str, last: str) -> Tensor:
        """The latest metrics from `first` to `last` (agents, count), to be written to."""
        return self.metrics[:, METRICS.index(first) : METRICS.index(last) + 1]

    def _descend(self, network: str, gradients: Parameters) -> None:
        for name, parameter in self.networks[network].items():
            parameter.grad = gradients[name].float().contiguous()
        self.optimisers[network].step()

    def _beside(self) -> torch.cuda.StreamContext:
        """On a GPU, what is done inside may run beside what follows, until the next `_join`."""
        if self._side is not None:
            self._side.wait_stream(torch.cuda.current_stream())
        return torch.cuda.stream(self._side)

    def _join(self) -> None:
        if self._side is not None:
            torch.cuda.current_stream().wait_stream(self._side)


def _initial(spec: Spec, h: Hyperparameters, generator: np.random.Generator) -> dict[str, Parameters]:
    return {
        "encoder": initial_encoder(generator, spec, h),
        "value": initial_value(generator, h),
        "policy": initial_policy(generator, spec, h),
    }


def _within(shape: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(size) for size in shape)


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    """On a leading axis, padded with zeros to the largest."""
    shape = torch.tensor([tensor.shape for tensor in tensors]).amax(0).tolist()
    stacked = torch.zeros(len(tensors), *shape)
    for padded, tensor in zip(stacked, tensors, strict=True):
        padded[_within(tensor.shape)] = tensor
    return stacked


def _adamw(parameters: Parameters, rate: float, weight_decay: float) -> torch.optim.AdamW:
    """With its moments in place from the start, so that they can be saved and loaded at any time."""
    on_gpu = all(parameter.is_cuda for parameter in parameters.values())
    optimiser = torch.optim.AdamW(
        parameters.values(), lr=rate, weight_decay=weight_decay, fused=True, capturable=on_gpu
    )
    for parameter in parameters.values():
        optimiser.state[parameter] = {
            "step": torch.zeros((), device=parameter.device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
    return optimiser


def _clip(gradients: Parameters, norm: float) -> Parameters:
    """Each agent's gradient scaled so that its norm is at most `norm`."""
    squares = torch.stack([gradient.float().square().flatten(1).sum(1) for gradient in gradients.values()]).sum(0)
    scale = (norm / (squares.sqrt() + 1e-6)).clamp(max=1)  # (agents,)
    return {name: gradient * scale.view(-1, *[1] * (gradient.ndim - 1)) for name, gradient in gradients.items()}
