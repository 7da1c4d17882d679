"""MR.Q behind the protocol: when agents explore at random, when targets are synchronised, and which updates follow."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mrq.algorithms.algorithm import Carried, Learner, Setup
from mrq.algorithms.mrq.agents import METRICS, Agents
from mrq.algorithms.mrq.memory import bytes_needed, encoder_chunk
from mrq.algorithms.mrq.noise import acting_noise, encoder_noise, gumbel, value_noise
from mrq.algorithms.noise_blocks import Draw, NoiseBlocks, for_each_copy
from mrq.algorithms.observed import Unpacked
from mrq.algorithms.trained import Networks
from mrq.execution import HIGH_PRIORITY, Exchange, SideStream, Work
from mrq.interface import Array, Sampler
from mrq.memory import refuse_beyond_memory
from mrq.randomness import Stream, generator
from mrq.restoring import is_count, refuse_unless


class MRQLearner(Learner):
    """P agents of MR.Q: updates at a steady rate per step, and a burst of encoder updates per target period."""

    def __init__(self, setup: Setup) -> None:
        specs, h, device, exchange = setup.specs, setup.hyperparameters, setup.device, setup.exchange
        self.specs, self.hyperparameters, self.device = specs, h, device
        self.period = max(1, round(h.target_period / h.updates_per_step))
        self._copies = copies = setup.copies
        refuse_beyond_memory(bytes_needed(specs, h), device)
        seeds = [identity.seed for identity in setup.identities]
        generators = [generator(seed, Stream.PARAMETERS) for seed in seeds]
        self.agents = agents = Agents(specs, h, generators, device, setup.dtype)
        # Deviation: with overlap, actions in the first third of a target period are chosen by the target networks, so
        # that environments step during the period's encoder updates too.
        leads = setup.overlap and h.model_based and setup.copies == 1 and h.updates_per_step == 1
        self._lead: int = h.target_period // 3 if leads else 0
        ahead = ThreadPoolExecutor(max_workers=1)

        def blocks(stream: Stream, draw: Draw) -> NoiseBlocks:
            return NoiseBlocks(seeds, specs, stream, h.target_period, draw, device, ahead)

        actions = h.target_period * copies
        each = for_each_copy(lambda g, spec: acting_noise(g, actions, spec), h.target_period, copies)
        self._acting_noise = blocks(Stream.ACTING, each)
        self._encoder_noise = blocks(Stream.ENCODER_UPDATES, lambda g, spec: encoder_noise(g, h.target_period, spec, h))
        self._value_noise = blocks(Stream.VALUE_UPDATES, lambda g, spec: value_noise(g, h.target_period, spec, h))
        self._replay, self._exchange = setup.replay, exchange
        self._beside = SideStream(device, HIGH_PRIORITY)
        self.chunk = encoder_chunk(agents.spec, h)
        sample = setup.replay.sample
        # On a CPU, compiling the optimiser gains nothing.
        compiled = {n: f for n, f in agents.functions.items() if device.type == "cuda" or not n.startswith("descend")}
        acting = [compiled.pop("explore")]
        encoder = [f for name, f in compiled.items() if name in ("embed_targets", "encoder_gradients")]
        encoder += [f for name, f in compiled.items() if name == "descend_encoder"]
        value = [f for name, f in compiled.items() if name not in ("embed_targets", "encoder_gradients")]

        def exploring(networks: Networks) -> Callable[[], None]:
            return partial(_explore, agents, networks, self._acting_noise, exchange)

        self._explore = Work("explore", exploring(agents.networks), acting)
        self._explore_by_targets = Work("explore by targets", exploring(agents.targets), acting, HIGH_PRIORITY)
        burst = partial(_update_encoder, agents, setup.replay, self._encoder_noise, self.chunk)
        self._update_encoder = Work("encoder", burst, [sample, *encoder])
        update = partial(_update_value_and_policy, agents, setup.replay, self._value_noise)
        self._update_value_and_policy = Work("value and policy", update, [sample, *value])
        self.works: Sequence[Work] = (
            self._explore,
            self._explore_by_targets,
            self._update_encoder,
            self._update_value_and_policy,
        )
        self.encoder_updates = 0
        self.updates = 0  # of value and policy

    @property
    def metrics(self) -> Mapping[str, Tensor]:
        columns = {name: self.agents.metrics[:, column] for column, name in enumerate(METRICS)}
        return columns | {"reward_scale": self.agents.reward_scale}

    def explore(self, step: int) -> None:
        noise, place = self._acting_noise, step // self._copies
        if step < self.hyperparameters.random_steps:
            place = noise.seek(place)
            drawn = {name: tensor[:, place] for name, tensor in noise.host.items()}
            self._exchange.actions.copy_(self.agents.random_actions(drawn, self._exchange.observations.flatten(2, 3)))
            return
        leads = self._leads(step)
        with self._beside.work() if leads else nullcontext():
            noise.seek(place)
            (self._explore_by_targets if leads else self._explore)()
            self._exchange.actions_will_be_written()

    def _leads(self, step: int) -> bool:
        """Says whether the target networks choose the action.

        Not for a period's first step: its action is chosen before the targets are synchronised, by the networks that
        the targets are about to become.
        """
        updates = step - int(self.hyperparameters.random_steps) - 1  # that the step before calls for
        return bool(0 < updates % self.period < self._lead)

    def update(self, steps: int, interrupted: Callable[[], bool]) -> None:
        h = self.hyperparameters
        while self.updates < int((steps - h.random_steps) * h.updates_per_step):
            period_end = (self.updates // h.target_period + 1) * h.target_period
            while self.encoder_updates < period_end:
                # A burst takes a while on a small machine, so it may stop between two chunks.
                if interrupted():
                    return
                self._burst(min(self.chunk, period_end - self.encoder_updates))
            self._value_noise.seek(self.updates)
            self._update_value_and_policy()
            self.updates += 1

    def _burst(self, count: int) -> None:
        """Does a part of the encoder updates that a target period begins with."""
        if self.encoder_updates % self.hyperparameters.target_period == 0:
            self.agents.sync_targets(self._replay.mean_absolute_reward())
            self._beside.follow()
        if self.hyperparameters.model_based:
            self._encoder_noise.seek(self.encoder_updates)
            if count == self.chunk:
                self._update_encoder()
            else:
                _update_encoder(self.agents, self._replay, self._encoder_noise, count)
        self.encoder_updates += count

    def act(self, states: Tensor, generators: Sequence[np.random.Generator] | None, carried: Carried) -> Tensor:
        """Discrete actions keep their Gumbel noise, as in the published evaluations, unless they are deterministic."""
        noise = None
        if self.agents.spec.choices and generators is not None:
            agents, count = states.shape[:2]
            drawn = np.zeros((agents * count, self.agents.spec.action_size), np.float32)
            for place, own in enumerate(generators):
                size = self.specs[place // count].action_size
                drawn[place, :size] = gumbel(own, (size,))
            noise = torch.from_numpy(drawn.reshape(agents, count, -1)).to(states.device)
        return self.choose(states, noise, carried)

    def choose(self, states: Tensor | Unpacked, gumbel: Tensor | None, carried: Carried) -> Tensor:
        return self.agents.act(states, {} if gumbel is None else {"evaluation_gumbel": gumbel})

    def parameters_of(self, agent: int) -> int:
        return self.agents.parameters_of(agent)

    def state_of(self, agent: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return self.agents.state_of(agent), {"encoder_updates": self.encoder_updates, "updates": self.updates}

    def load_state_of(self, agent: int, tensors: Mapping[str, Array | Tensor], counters: Mapping[str, Any]) -> None:
        encoder_updates, updates = counters["encoder_updates"], counters["updates"]
        refuse_unless(
            is_count(updates) and is_count(encoder_updates, updates, updates + self.hyperparameters.target_period),
            "the updates",
        )
        self.agents.load_state_of(agent, tensors)
        self.encoder_updates, self.updates = encoder_updates, updates
        self._beside.follow()

    def policy_of(self, agent: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return self.agents.trained.networks_of(agent), {}

    def load_policy_of(self, agent: int, tensors: Mapping[str, Array | Tensor], counters: Mapping[str, Any]) -> None:
        self.agents.trained.load_networks_of(agent, tensors)
        self._beside.follow()


# Device work alone, on tensors that stay where they are: this is what is captured.


def _explore(agents: Agents, networks: Networks, noise: NoiseBlocks, exchange: Exchange) -> None:
    states = exchange.observations.to(agents.device, non_blocking=True).flatten(2, 3)
    drawn = {name: tensor[:, 0] for name, tensor in noise.take(1).items()}
    exchange.actions.copy_(agents.explore(networks, states, drawn), non_blocking=True)


def _update_encoder(agents: Agents, replay: Sampler, blocks: NoiseBlocks, count: int) -> None:
    noise = {name: tensor.flatten(1, 2) for name, tensor in blocks.take(count).items()}
    windows = replay.sample(noise.pop("sample"), range(agents.hyperparameters.encoder_horizon + 1))
    agents.update_encoder(windows, noise, replay.terminated_before)


def _update_value_and_policy(agents: Agents, replay: Sampler, blocks: NoiseBlocks) -> None:
    noise = {name: tensor[:, 0] for name, tensor in blocks.take(1).items()}
    windows = replay.sample(noise.pop("sample"), (0, agents.hyperparameters.value_horizon))
    td_errors = agents.update_value_and_policy(windows, noise)
    if agents.hyperparameters.prioritised:
        replay.update_priorities(windows.slots, td_errors)
