"""The replay of P agents: every observation is stored once; windows and stacks are rebuilt when they are sampled.

Each environment has a ring of slots. A slot holds one observation and what followed it: action, reward, whether that
ended the episode. An episode of T steps takes T + 1 slots; its last observation has no action. Windows run forwards
from a slot and stacks backwards, never across an episode's edge nor across the place where the ring is being
overwritten. An agent samples from the rings of all its environments, its copies, together.

A state may be sampled once `horizon` transitions from it are in, or its episode has terminated: that is when its
priority rises above 0. The last states of a truncated episode stay at 0.

This file is the host's side: it decides which slots are written. storage.py is the device's.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mrq.execution import Function, Work, widest_float
from mrq.interface import Array, ReplaySettings, Spec, Transitions, common_spec
from mrq.replay.allocation import FLAGS
from mrq.replay.priorities import Priorities
from mrq.replay.storage import Storage
from mrq.restoring import is_count, joined, refuse_unless, restore, separated

COUNTERS = ("cursor", "filled", "episode_steps")
NOWHERE = -1  # no position in a ring
BLOCK_BYTES = 64_000_000  # of one array of a saved state, so that most are unchanged when they are saved again
SAVED_AS = {"terminated": np.bool_, "complete": np.bool_, "preceding": np.uint8}


class Replay:
    """What P agents experienced. `sample` is a Function; see Storage.windows.

    Arrays of environments have an agent's copies side by side. `slots` are an agent's, a multiple of its copies.
    """

    def __init__(
        self, specs: Sequence[Spec], settings: ReplaySettings, slots: int, device: torch.device, copies: int = 1
    ) -> None:
        agents = len(specs)
        self.specs, self.spec, self.horizon, self.copies = specs, common_spec(specs), settings.horizon, copies
        self._storage = storage = Storage(agents, self.spec, settings, slots, device, copies)
        self.sample = Function(storage.windows)
        self._write = Work("store", storage.write)
        self.works = (self._write,)
        self.terminated_before = storage.terminated_before  # (agents,)
        # Of each environment; positions in its own ring.
        self.cursor = np.full(agents * copies, -1)  # of its present observation
        self.filled = np.zeros(agents * copies, int)
        self.episode_steps = np.zeros(agents * copies, int)

    @property
    def slots(self) -> int:
        """The slots of an agent."""
        return self._storage.slots

    @property
    def ring(self) -> int:
        """The slots of an environment."""
        return self.slots // self.copies

    @property
    def frames(self) -> Tensor:
        return self._storage.frames

    @property
    def actions(self) -> Tensor:
        return self._storage.actions

    @property
    def rewards(self) -> Tensor:
        return self._storage.rewards

    @property
    def priorities(self) -> Priorities:
        return self._storage.priorities

    def begin(self, starting: Array, frames: Array) -> None:
        """Stores a new episode's first frames, for the environments where `starting` (environments,) is true."""
        self.episode_steps[starting] = 0
        count = len(starting)
        nowhere, no_window = np.full(count, NOWHERE), np.zeros((count, self.horizon), bool)
        self._store(nowhere, np.zeros((count, len(FLAGS) + self.spec.action_size)), no_window, starting, frames)

    def append(self, step: Transitions) -> None:
        """Stores one transition of every environment; where an episode only began, its first frame."""
        count = len(step.rewards)
        flags = (step.rewards, step.terminated, np.ones(count), self._stacked())
        records = np.concatenate([np.stack(flags, 1), step.actions], 1)
        # The state `horizon` steps back has its window now; a termination completes every window still open.
        self.episode_steps += 1
        back = np.arange(self.horizon)
        ready = (back < self.episode_steps[:, None]) & ((back == self.horizon - 1) | step.terminated[:, None])
        positions = self.cursor.copy()
        if step.began is not None:
            self.episode_steps[step.began] = 0
            positions[step.began], ready[step.began] = NOWHERE, False
        self._store(positions, records, ready, np.ones(count, bool), step.next_frames)

    def _store(self, positions: Array, records: Array, ready: Array, opening: Array, frames: Array) -> None:
        """Writes records to their slots; then opens a fresh one with the next observation where `opening` is true."""
        windows = np.where(ready, (self.cursor[:, None] - np.arange(self.horizon)) % self.ring, NOWHERE)
        overwriting = opening & (self.filled == self.ring)
        self.cursor[opening] = (self.cursor[opening] + 1) % self.ring
        self.filled[opening] = np.minimum(self.filled[opening] + 1, self.ring)
        opened = np.where(opening, self.cursor, NOWHERE)
        # The overwritten state is gone, and with it the stacks that reach back to it.
        lost = (self.cursor[:, None] + np.arange(self.spec.history)) % self.ring
        lost = np.where(overwriting[:, None], lost, NOWHERE)
        fresh = np.zeros_like(records)
        fresh[:, FLAGS.index("preceding")] = self._stacked()
        written = (positions, opened, windows, lost)
        self._storage.staged.send(
            slots=np.concatenate([self._slots_at(part) for part in written], 1),
            records=np.concatenate([self._of_agents(records), self._of_agents(fresh)], 1).astype(np.float32),
            ready=self._of_agents(ready).reshape(len(self.specs), -1),
            frames=self._of_agents(frames),
        )
        self._write()

    def _of_agents(self, values: Array) -> Array:
        """Returns an array of environments (environments, …) as (agents, copies, …)."""
        return values.reshape(len(self.specs), self.copies, *values.shape[1:])

    def _slots_at(self, positions: Array) -> Array:
        """Returns the slots (agents, count) of positions (environments, …) in the environments' own rings."""
        positions = self._of_agents(positions)
        copy = np.arange(self.copies).reshape(-1, *(1,) * (positions.ndim - 2))
        slots = np.where(positions == NOWHERE, self.slots, positions * self.copies + copy)
        return slots.reshape(len(self.specs), -1)

    def update_priorities(self, slots: Tensor, td_errors: Tensor) -> None:
        """Gives sampled slots (agents, count) priorities by their TD errors (agents, count)."""
        self._storage.priorities.update(slots, td_errors)

    def present_states(self, agent: int) -> Array:
        """Returns what an agent sees now (copies, history, *frame_shape), padded, as environments give it."""
        slots = torch.from_numpy(self._slots_at(self.cursor)).to(self.frames.device)[..., None]
        states = self._storage.states(slots)[agent, :, 0]
        return states.cpu().numpy().reshape(self.copies, self.spec.history, *self.spec.frame_shape)

    def mean_absolute_reward(self) -> Tensor:
        """Returns each agent's mean absolute reward (agents,)."""
        filled = int(self.filled.max()) * self.copies
        total = self.rewards[:, :filled].abs().sum(1, dtype=widest_float(self.frames.device))
        return (total / self._storage.complete[:, :filled].sum(1)).float()

    def can_sample(self) -> Array:
        """Says of each agent (agents,) whether it has a state that may be sampled."""
        return (self.priorities.sums > 0).any(1).cpu().numpy()

    def episode_actions(self, environment: int) -> Array | None:
        """Returns the actions of an environment's episode, padded, or None if its ring has overwritten some of them."""
        steps = self.episode_steps[environment]
        if steps >= self.ring:
            return None
        agent, copy = divmod(environment, self.copies)
        slots = (self.cursor[environment] - steps + np.arange(steps)) % self.ring * self.copies + copy
        return self.actions[agent, torch.from_numpy(slots).to(self.frames.device)].cpu().numpy()

    def state_of(self, agent: int) -> tuple[dict[str, Array], dict[str, Any]]:
        """Returns all that one agent's replay holds, as arrays and counters, without padding."""
        filled = self._filled_slots(self.filled[self._copies_of(agent)])
        arrays = {name: block.cpu().numpy() for name, block in self._own(agent, filled).items()}
        for name in arrays:
            if kind := SAVED_AS.get(name.partition("-")[0]):
                arrays[name] = arrays[name].astype(kind)
        arrays["priority_sums"] = self.priorities.sums_of(agent, filled).cpu().numpy()
        arrays["highest_priority"] = self.priorities.highest[agent].cpu().numpy()
        arrays["terminated_before"] = self.terminated_before[agent].cpu().numpy()
        copies = self._copies_of(agent)
        return arrays, {name: joined(getattr(self, name)[copies].tolist()) for name in COUNTERS}

    def load_state_of(self, agent: int, arrays: Mapping[str, Array], counters: Mapping[str, Any]) -> None:
        """Restores what `state_of` returned, from a ring of this size or, if it had not wrapped, a smaller one."""
        own = {name: separated(counters[name], self.copies) for name in COUNTERS}
        self._check(own)
        filled = self._filled_slots(own["filled"])
        for name, block in self._own(agent, filled).items():
            restore(block, arrays, name, SAVED_AS.get(name.partition("-")[0]))
        restore(self.priorities.sums_of(agent, filled), arrays, "priority_sums")
        restore(self.priorities.highest[agent], arrays, "highest_priority")
        restore(self.terminated_before[agent], arrays, "terminated_before")
        refuse_unless(self.priorities.are_sound(agent), "the priorities")
        refuse_unless(int(self._storage.preceding[agent].max()) < self.spec.history, "the stacks")
        for name in COUNTERS:
            getattr(self, name)[self._copies_of(agent)] = own[name]

    def _copies_of(self, agent: int) -> slice:
        """Returns where an agent's environments are among all of them."""
        return slice(agent * self.copies, (agent + 1) * self.copies)

    def _filled_slots(self, filled: Sequence[int] | Array) -> int:
        """Returns how many of an agent's slots come before the first that none of its environments has filled."""
        return int(max(filled)) * self.copies

    def _check(self, counters: Mapping[str, list[Any]]) -> None:
        """Refuses counters that no rings of this size can have."""
        ring = self.ring
        for cursor, filled, steps in zip(*(counters[name] for name in COUNTERS), strict=True):
            refuse_unless(is_count(filled, 0, ring) and is_count(cursor, -1, ring - 1), "the replay's ring")
            refuse_unless(cursor == filled - 1 if filled < ring else cursor >= 0, "the replay's ring")
            possible = steps < filled or filled == ring or filled == 0 if is_count(steps) else False
            refuse_unless(possible, "the episode's length")

    def make_room(self, slots: int) -> bool:
        """Grows to so many slots, if it has fewer; says whether it did. It must not have wrapped."""
        if slots <= self.slots:
            return False
        held = [self.state_of(agent) for agent in range(len(self.specs))]
        self._storage.allocate(slots)
        for agent, (arrays, counters) in enumerate(held):
            self.load_state_of(agent, arrays, counters)
        return True

    def _stacked(self) -> Array:
        """Returns how many earlier frames each present state holds."""
        return np.minimum(self.episode_steps, self.spec.history - 1)

    def _own(self, agent: int, filled: int) -> dict[str, Tensor]:
        """Returns one agent's slots without padding, by name and number of the block."""
        spec, storage = self.specs[agent], self._storage
        frames = storage.frames[agent, :filled]
        whole = {
            "frames": frames[:, : spec.frame_shape[0]],
            "actions": storage.actions[agent, :filled, : spec.action_size],
            "priorities": storage.priorities.values[agent, :filled],
        } | {name: storage.records[agent, :filled, place] for place, name in enumerate(FLAGS)}
        return {f"{name}-{n}": block for name, tensor in whole.items() for n, block in enumerate(_blocks(tensor))}


def _blocks(tensor: Tensor) -> tuple[Tensor, ...]:
    """Splits a tensor into blocks of as many slots as fit."""
    return torch.split(tensor, max(BLOCK_BYTES // (tensor.shape[1:].numel() * tensor.element_size()), 1))
