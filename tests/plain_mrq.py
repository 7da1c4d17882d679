"""MR.Q once more, as plainly as it can be written: one agent, vectors, lists, autograd, torch.optim.

Its numbers are the paper's, written out. What it shares with mrq is data: the initial weights, and the random numbers.
"""

from collections.abc import Callable
from itertools import pairwise

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from mrq.algorithms.mrq.hyperparameters import Hyperparameters
from mrq.algorithms.mrq.noise import acting_noise, encoder_noise, value_noise
from mrq.interface import Array, Spec
from mrq.randomness import Stream, environment_seed, generator

Parameters = dict[str, Tensor]
BINS = torch.linspace(-10, 10, 65).sign() * (torch.linspace(-10, 10, 65).abs().exp() - 1)


def layer(parameters: Parameters, name: str, x: Tensor) -> Tensor:
    return F.linear(x, parameters[f"{name}.weight"], parameters[f"{name}.bias"])


def norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


def f(encoder: Parameters, s: Tensor) -> Tensor:
    for index in range(3):
        s = F.elu(norm(layer(encoder, f"f.linear{index}", s)))
    return s


def g(encoder: Parameters, zs: Tensor, a: Tensor) -> Tensor:
    x = torch.cat([zs, F.elu(layer(encoder, "g.action", a))], -1)
    for index in range(2):
        x = F.elu(norm(layer(encoder, f"g.linear{index}", x)))
    return layer(encoder, "g.linear2", x)


def q(value: Parameters, zsa: Tensor) -> Tensor:
    """(batch, 2)"""
    critics = []
    for critic in range(2):
        own, x = {name: tensor[critic] for name, tensor in value.items()}, zsa
        for index in range(3):
            x = F.elu(norm(layer(own, f"linear{index}", x)))
        critics.append(layer(own, "head", x))
    return torch.cat(critics, 1)


def pi(policy: Parameters, zs: Tensor) -> Tensor:
    for index in range(2):
        zs = F.relu(norm(layer(policy, f"linear{index}", zs)))
    return layer(policy, "linear2", zs)


def two_hot(rewards: Tensor) -> Tensor:
    below = (torch.searchsorted(BINS, rewards.contiguous(), right=True) - 1).clamp(0, 63)
    share = (rewards - BINS[below]) / (BINS[below + 1] - BINS[below])
    return F.one_hot(below, 65) * (1 - share[:, None]) + F.one_hot(below + 1, 65) * share[:, None]


def choices(spec: Spec) -> list[slice]:
    """The entries of an action that each choice takes."""
    ends = np.cumsum([spec.continuous, *spec.choices])
    return [slice(first, last) for first, last in pairwise(ends)]


def soft_choice(logits: Tensor, allowed: Tensor) -> Tensor:
    """Softmax at temperature 10 over the options that are allowed."""
    weights = (logits / 10).exp() * allowed
    return weights / weights.sum(-1, keepdim=True)


def best(scores: Tensor, allowed: Tensor) -> Tensor:
    """One-hot, the largest score of those that are allowed."""
    return F.one_hot(torch.where(allowed > 0, scores, -torch.inf).argmax(-1), scores.shape[-1]).float()


class PlainMRQ:
    def __init__(
        self,
        environment: gym.Env,
        to_environment: Callable[[Array], object],  # an action as the networks have it, to the environment's
        seed: int,
        initial: dict[str, Parameters],
        spec: Spec,
        h: Hyperparameters,  # sizes and times
    ) -> None:
        self.environment, self.to_environment, self.seed, self.spec, self.h = environment, to_environment, seed, spec, h
        self.networks = {n: {k: t.clone().requires_grad_() for k, t in p.items()} for n, p in initial.items()}
        self.optimisers = {
            network: torch.optim.AdamW(
                parameters.values(), lr=1e-4 if network == "encoder" else 3e-4, weight_decay=1e-4
            )
            for network, parameters in self.networks.items()
        }
        self.reward_scale = 1.0
        self.highest, self.terminated_before = 1.0, False
        # One entry an observation; an episode's last one has no action.
        self.states: list[Array] = []
        self.masks: list[Array] = []
        self.actions: list[Array | None] = []
        self.rewards: list[float] = []
        self.terminated: list[bool] = []
        self.priorities: list[float] = []

    def train(self, steps: int) -> None:
        h, episodes, over = self.h, 0, True
        for step in range(steps):
            if over:
                state, info = self.environment.reset(seed=environment_seed(self.seed, episodes))
                self._see(state, info)
                episodes, length = episodes + 1, 0
            action = self._act(step)
            state, reward, terminated, truncated, info = self.environment.step(self.to_environment(action))
            self.actions[-1], self.rewards[-1], self.terminated[-1] = action, float(reward), terminated
            length, over = length + 1, terminated or truncated
            self.terminated_before |= terminated
            self._see(state, info)
            now = len(self.states) - 2
            for back in range(min(5, length)):
                if back == 4 or terminated:
                    self.priorities[now - back] = self.highest
            update = step - h.random_steps
            if update >= 0:
                if update % h.target_period == 0:
                    self._begin_period(update // h.target_period)
                self._update(update)

    def _noise(self, draw: Callable[..., dict[str, Array]], stream: Stream, index: int, *more: object) -> Parameters:
        arrays = draw(generator(self.seed, stream, index), self.h.target_period, self.spec, *more)
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def _see(self, state: Array, info: dict[str, Array]) -> None:
        mask = np.ones(self.spec.action_size, np.float32)
        for own in choices(self.spec):
            given = info["action_mask"][own] if self.spec.masked else mask[own]
            mask[own] = given if given.any() else 1
        self.masks.append(mask)
        self.states.append(np.asarray(state, np.float32))
        self.actions.append(None)
        self.rewards.append(0.0)
        self.terminated.append(False)
        self.priorities.append(0.0)

    def _act(self, step: int) -> Array:
        block, place = divmod(step, self.h.target_period)
        noise = {name: t[place] for name, t in self._noise(acting_noise, Stream.ACTING, block).items()}
        allowed, action = torch.from_numpy(self.masks[-1]), noise["random_actions"].clone()
        if step < self.h.random_steps:
            if self.spec.masked:
                for own in choices(self.spec):
                    action[own] = best(noise["exploration_gumbel"][own], allowed[own])
            return action.numpy()
        with torch.no_grad():
            pre = pi(self.networks["policy"], f(self.networks["encoder"], torch.from_numpy(self.states[-1])))
        perturbation, numbers = noise["exploration_noise"], slice(0, self.spec.continuous)
        action[numbers] = (pre.tanh() + 0.2 * perturbation)[numbers].clamp(-1, 1)
        for own in choices(self.spec):
            scores = soft_choice(pre[own] + noise["exploration_gumbel"][own], allowed[own]) + 0.1 * perturbation[own]
            action[own] = best(scores, allowed[own])
        return action.numpy()

    def _kept(self) -> Array:
        """The entries that a replay of limited size still holds."""
        return np.arange(max(0, len(self.states) - self.h.replay_capacity), len(self.states))

    def _draw(self, uniforms: Array) -> list[int]:
        """Entries, by priority, in the order in which they lie in a ring."""
        kept, slots = self._kept(), self.h.replay_capacity
        ring, entries = np.zeros(slots), np.zeros(slots, int)
        ring[kept % slots], entries[kept % slots] = np.array(self.priorities)[kept], kept
        return entries[np.searchsorted(ring.cumsum(), uniforms * ring.sum(), side="right")].tolist()

    def _windows(self, entries: list[int], horizon: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """States, actions, rewards, whether the episode goes on, and masks (batch, horizon or one more, …)."""
        windows = []
        for entry in entries:
            states, actions, rewards, alive, masks = [self.states[entry]], [], [], [1.0], [self.masks[entry]]
            for _ in range(horizon):
                if alive[-1]:
                    actions.append(self.actions[entry])
                    rewards.append(self.rewards[entry])
                    alive.append(0.0 if self.terminated[entry] else 1.0)
                    entry += 1
                else:
                    actions.append(np.zeros(self.spec.action_size))
                    rewards.append(0.0)
                    alive.append(0.0)
                states.append(self.states[entry])
                masks.append(self.masks[entry])
            windows.append((states, actions, rewards, alive, masks))
        states, actions, rewards, alive, masks = (
            torch.from_numpy(np.array(x, np.float32)) for x in zip(*windows, strict=True)
        )
        return states, actions, rewards, alive, masks

    def _begin_period(self, period: int) -> None:
        self.targets = {n: {k: t.detach().clone() for k, t in p.items()} for n, p in self.networks.items()}
        self.target_reward_scale = self.reward_scale
        self.reward_scale = np.mean([abs(self.rewards[i]) for i in self._kept() if self.actions[i] is not None])
        for uniforms in self._noise(encoder_noise, Stream.ENCODER_UPDATES, period, self.h)["sample"]:
            states, actions, rewards, alive, _ = self._windows(self._draw(uniforms.numpy()), 5)
            encoder, loss = self.networks["encoder"], torch.zeros(())
            zs = f(encoder, states[:, 0])
            for t in range(5):
                predicted = layer(encoder, "m", g(encoder, zs, actions[:, t]))
                terminals, zs, logits = predicted[:, 0], predicted[:, 1:-65], predicted[:, -65:]
                aim, ended = f(self.targets["encoder"], states[:, t + 1]), alive[:, t] - alive[:, t + 1]
                errors = (zs - aim).square().mean(1)
                errors = errors + 0.1 * F.cross_entropy(logits, two_hot(rewards[:, t]), reduction="none")
                if self.terminated_before:
                    errors = errors + 0.1 * (terminals - ended).square()
                loss = loss + (errors * alive[:, t]).mean()
            self._descend("encoder", loss)

    def _update(self, update: int) -> None:
        period, place = divmod(update, self.h.target_period)
        noise = {n: t[place] for n, t in self._noise(value_noise, Stream.VALUE_UPDATES, period, self.h).items()}
        entries = self._draw(noise["sample"].numpy())
        states, actions, rewards, alive, masks = self._windows(entries, 3)
        with torch.no_grad():
            target = self.targets["encoder"]
            zs = f(target, states[:, 3])
            pre = pi(self.targets["policy"], zs)
            following = (pre.tanh() + (0.2 * noise["target_noise"]).clamp(-0.3, 0.3)).clamp(-1, 1)
            for own in choices(self.spec):
                allowed = masks[:, 3, own]
                soft = soft_choice(pre[:, own] + noise["target_gumbel"][:, own], allowed)
                following[:, own] = best(soft + (0.1 * noise["target_noise"][:, own]).clamp(-0.15, 0.15), allowed)
            bootstrap = q(self.targets["value"], g(target, zs, following)).min(1).values
            returns = sum(0.99**t * alive[:, t] * rewards[:, t] for t in range(3))
            aim = (returns + 0.99**3 * alive[:, 3] * self.target_reward_scale * bootstrap) / self.reward_scale
            zs = f(self.networks["encoder"], states[:, 0])
            zsa = g(self.networks["encoder"], zs, actions[:, 0])
        values = q(self.networks["value"], zsa)
        errors = (values - aim[:, None]).abs()
        self._descend("value", torch.where(errors < 1, errors.square() / 2, errors - 0.5).mean(), clip=20)
        pre = pi(self.networks["policy"], zs)
        parts = [pre[:, : self.spec.continuous].tanh()]
        for own in choices(self.spec):
            parts.append(soft_choice(pre[:, own] + noise["policy_gumbel"][:, own], masks[:, 0, own]))
        action = torch.cat(parts, 1)
        values = q(self.networks["value"], g(self.networks["encoder"], zs, action))
        self._descend("policy", 1e-5 * pre.square().mean() - values.mean())
        risen = errors.detach().amax(1).clamp(min=1).pow(0.4).numpy()
        for entry in set(entries):
            self.priorities[entry] = risen[np.array(entries) == entry].max()
        self.highest = max(self.highest, risen.max())

    def _descend(self, network: str, loss: Tensor, clip: float = float("inf")) -> None:
        parameters = list(self.networks[network].values())
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.grad = gradient
        torch.nn.utils.clip_grad_norm_(parameters, clip)
        self.optimisers[network].step()
