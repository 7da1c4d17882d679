"""An algorithm of a few lines: it moves each agent's one action to where rewards were higher than its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mrq.algorithms.algorithm import Algorithm, Carried, Learner, Setup
from mrq.bounds import check_fields
from mrq.execution import Function, Work
from mrq.interface import Array, ReplaySettings, Sampler

COUNT = 8  # windows in a mini-batch


@dataclass(frozen=True)
class Hyperparameters:
    """Three numbers."""

    rate: float = 0.02
    """Step size towards better actions."""
    noise: float = 0.3
    """Standard deviation of the noise on training actions."""
    random_steps: int = 20
    """Environment steps with random actions."""

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def updates_per_step(self) -> float:
        return 1.0

    @property
    def replay(self) -> ReplaySettings:
        return ReplaySettings(capacity=1_000, horizon=1)


class TinyLearner(Learner):
    """P agents, each of which always does nearly the same."""

    period = 10

    def __init__(self, setup: Setup) -> None:
        self.specs, self.device, self._exchange = setup.specs, setup.device, setup.exchange
        self._h, self._seeds = setup.hyperparameters, [identity.seed for identity in setup.identities]
        agents, self._copies, size = setup.exchange.actions.shape
        self._preferred = torch.zeros(agents, size)
        self._uniforms = torch.zeros(agents, COUNT)
        move = Function(_moved)
        learn = partial(_learn, self._preferred, self._uniforms, move, setup.replay, self._h.rate)
        self._learn = Work("learn", learn, [setup.replay.sample, move])
        self.works: Sequence[Work] = (self._learn,)
        self._updates = 0

    @property
    def metrics(self) -> Mapping[str, Tensor]:
        return {"preferred_action": self._preferred.mean(1)}

    def explore(self, step: int) -> None:
        shape = (self._copies, self._preferred.shape[1])
        draws = [np.random.default_rng([seed, step]) for seed in self._seeds]
        if step < self._h.random_steps:
            actions = torch.from_numpy(np.stack([draw.uniform(-1, 1, shape) for draw in draws]))
        else:
            noise = torch.from_numpy(np.stack([draw.normal(0, self._h.noise, shape) for draw in draws]))
            actions = (self._preferred[:, None] + noise).clamp(-1, 1)
        self._exchange.actions.copy_(actions)
        self._exchange.actions_will_be_written()

    def update(self, steps: int, interrupted: Callable[[], bool]) -> None:
        while self._updates < steps - self._h.random_steps:
            draws = [np.random.default_rng([seed, self._updates, 1]).random(COUNT) for seed in self._seeds]
            self._uniforms.copy_(torch.from_numpy(np.stack(draws)))
            self._learn()
            self._updates += 1

    def carries(self, count: int) -> Carried:
        return {"steps": torch.zeros(len(self._seeds), count)}

    def act(self, states: Tensor, generators: Sequence[np.random.Generator] | None, carried: Carried) -> Tensor:
        """Returns the preferred action, less and less of it as an episode goes on."""
        shares = 1 / (1 + carried["steps"])
        carried["steps"] += 1
        return self._preferred[:, None] * shares[..., None]

    def parameters_of(self, agent: int) -> int:
        return self.specs[agent].action_size

    def state_of(self, agent: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        own = self._preferred[agent, : self.specs[agent].action_size]
        return {"preferred": own.clone()}, {"tiny_updates": self._updates}

    def load_state_of(self, agent: int, tensors: Mapping[str, Array | Tensor], counters: Mapping[str, Any]) -> None:
        own = torch.as_tensor(tensors["preferred"])
        self._preferred[agent, : len(own)] = own
        self._updates = counters["tiny_updates"]


def _learn(preferred: Tensor, uniforms: Tensor, move: Function, replay: Sampler, rate: float) -> None:
    windows = replay.sample(uniforms, (0, 1))
    preferred.copy_(move(preferred, windows.actions[:, :, 0], windows.rewards[:, :, 0], rate))


def _moved(preferred: Tensor, actions: Tensor, rewards: Tensor, rate: float) -> Tensor:
    gains = rewards - rewards.mean(1, keepdim=True)  # (agents, count)
    step = (gains[..., None] * (actions - preferred[:, None])).mean(1)
    return (preferred + rate * step).clamp(-1, 1)


TINY = Algorithm(
    "tiny",
    "Tiny",
    Hyperparameters,
    TinyLearner,
    observations=("vectors",),
    actions=("continuous",),
    variants={"slow-tiny": {"rate": 0.01}},
)
