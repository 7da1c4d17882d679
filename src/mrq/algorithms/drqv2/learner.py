"""DrQ-v2 behind the protocol: when agents explore at random, and which steps an update follows."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mrq.algorithms.algorithm import Carried, Learner, Setup
from mrq.algorithms.drqv2.agents import METRICS, Agents
from mrq.algorithms.drqv2.exploration import decay_steps
from mrq.algorithms.drqv2.memory import bytes_needed
from mrq.algorithms.drqv2.noise import acting_noise, update_noise
from mrq.algorithms.noise_blocks import Draw, NoiseBlocks, for_each_copy
from mrq.execution import Exchange, Work
from mrq.interface import Array, Sampler
from mrq.memory import refuse_beyond_memory
from mrq.randomness import Stream, generator
from mrq.restoring import is_count, refuse_unless

BLOCK = 250  # steps or updates whose noise is drawn at once


class DrQV2Learner(Learner):
    """P agents of DrQ-v2: after the random steps, one update per `update_every` environment steps."""

    period = BLOCK

    def __init__(self, setup: Setup) -> None:
        h, device, exchange = setup.hyperparameters, setup.device, setup.exchange
        self.specs, self.hyperparameters, self.device = setup.specs, h, device
        refuse_beyond_memory(bytes_needed(setup.specs, h), device)
        seeds = [identity.seed for identity in setup.identities]
        generators = [generator(seed, Stream.PARAMETERS) for seed in seeds]
        decays = [decay_steps(identity.task, h) for identity in setup.identities]
        self.agents = agents = Agents(setup.specs, h, generators, decays, device, setup.dtype)
        ahead = ThreadPoolExecutor(max_workers=1)

        def blocks(stream: Stream, draw: Draw) -> NoiseBlocks:
            return NoiseBlocks(seeds, setup.specs, stream, BLOCK, draw, device, ahead)

        self._copies = copies = setup.copies
        each = for_each_copy(lambda g, spec: acting_noise(g, BLOCK * copies, spec), BLOCK, copies)
        self._acting_noise = blocks(Stream.ACTING, each)
        self._update_noise = blocks(Stream.VALUE_UPDATES, lambda g, spec: update_noise(g, BLOCK, spec, h))
        self._exchange = exchange
        # The environment step that an action or an update belongs to: the noise on actions depends on it.
        self._explored_step = torch.zeros((), dtype=torch.long, device=device)
        self._updated_step = torch.zeros((), dtype=torch.long, device=device)
        # On a CPU, compiling the optimiser gains nothing.
        compiled = {n: f for n, f in agents.functions.items() if device.type == "cuda" or not n.startswith("descend")}
        acting = [compiled.pop("explore")]
        explore = partial(_explore, agents, self._acting_noise, exchange, self._explored_step)
        self._explore = Work("explore", explore, acting)
        update = partial(_update, agents, setup.replay, self._update_noise, self._updated_step)
        self._update = Work("update", update, [setup.replay.sample, *compiled.values()])
        self.works: Sequence[Work] = (self._explore, self._update)
        self.updates = 0

    @property
    def metrics(self) -> Mapping[str, Tensor]:
        return {name: self.agents.metrics[:, column] for column, name in enumerate(METRICS)}

    def explore(self, step: int) -> None:
        place = self._acting_noise.seek(step // self._copies)
        if step < self.hyperparameters.random_steps:
            self._exchange.actions.copy_(self._acting_noise.host["random_actions"][:, place])
            return
        self._explored_step.fill_(step)
        self._explore()
        self._exchange.actions_will_be_written()

    def update(self, steps: int, interrupted: Callable[[], bool]) -> None:
        """Does the first update after the first step that is not random, and then one every `update_every` steps.

        Deviation: the original does each of these updates just before that step, so it does not see the step yet.
        """
        while (step := self._next_update_at()) < steps and not interrupted():
            self._update_noise.seek(self.updates)
            self._updated_step.fill_(step)
            self._update()
            self.updates += 1

    def _next_update_at(self) -> int:
        """Returns the environment step, counted from 0, that the next update follows."""
        h = self.hyperparameters
        at: int = h.random_steps + self.updates * h.update_every
        return at

    def act(self, states: Tensor, generators: Sequence[np.random.Generator] | None, carried: Carried) -> Tensor:
        """Evaluation actions have no noise."""
        return self.agents.act(states)

    def parameters_of(self, agent: int) -> int:
        return self.agents.parameters_of(agent)

    def state_of(self, agent: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return self.agents.state_of(agent), {"updates": self.updates}

    def load_state_of(self, agent: int, tensors: Mapping[str, Array | Tensor], counters: Mapping[str, Any]) -> None:
        refuse_unless(is_count(counters["updates"]), "the updates")
        self.agents.load_state_of(agent, tensors)
        self.updates = counters["updates"]

    def policy_of(self, agent: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return self.agents.trained.networks_of(agent), {}

    def load_policy_of(self, agent: int, tensors: Mapping[str, Array | Tensor], counters: Mapping[str, Any]) -> None:
        self.agents.trained.load_networks_of(agent, tensors)


# Device work alone, on tensors that stay where they are: this is what is captured.


def _explore(agents: Agents, blocks: NoiseBlocks, exchange: Exchange, step: Tensor) -> None:
    states = exchange.observations.to(agents.device, non_blocking=True).flatten(2, 3)
    actions = agents.explore(states, blocks.take(1)["exploration_noise"][:, 0], step)
    exchange.actions.copy_(actions, non_blocking=True)


def _update(agents: Agents, replay: Sampler, blocks: NoiseBlocks, step: Tensor) -> None:
    noise = {name: tensor[:, 0] for name, tensor in blocks.take(1).items()}
    windows = replay.sample(noise.pop("sample"), (0, agents.hyperparameters.value_horizon))
    agents.update(windows, noise, step)
