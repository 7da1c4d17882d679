"""The replay of P agents: every observation is stored once; windows and stacks are rebuilt when they are sampled.

Each agent has a ring of slots. A slot holds one observation and what followed it: action, reward, whether that ended
the episode. An episode of T steps takes T + 1 slots; its last observation has no action. Windows run forwards from a
slot and stacks backwards, never across an episode's edge nor across the place where the ring is being overwritten.

A state may be sampled once `horizon` transitions from it are in, or its episode has terminated: that is when its
priority rises above 0. The last states of a truncated episode stay at 0.

This file is the host's side: it decides which slots are written. storage.py is the device's.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from mrq.execution import Function, Work
from mrq.interface import Array, ReplaySettings, Spec, Transitions, common_spec
from mrq.replay.allocation import FLAGS
from mrq.replay.priorities import Priorities
from mrq.replay.storage import Storage
from mrq.restoring import is_count, refuse_unless, restore

COUNTERS = ("cursor", "filled", "episode_steps")
BLOCK_BYTES = 64_000_000  # of one array of a saved state, so that most are unchanged when they are saved again
SAVED_AS = {"terminated": np.bool_, "complete": np.bool_, "preceding": np.uint8}


class Replay:
    """What P agents experienced. `sample` is a Function; see Storage.windows."""

    def __init__(self, specs: Sequence[Spec], settings: ReplaySettings, slots: int, device: torch.device) -> None:
        agents = len(specs)
        self.specs, self.spec, self.horizon = specs, common_spec(specs), settings.horizon
        self._storage = storage = Storage(agents, self.spec, settings, slots, device)
        self.sample = Function(storage.windows)
        self._write = Work("store", storage.write)
        self.works = (self._write,)
        self.terminated_before = storage.terminated_before  # (agents,)
        self.cursor = np.full(agents, -1)  # the slot of each agent's present observation
        self.filled = np.zeros(agents, int)
        self.episode_steps = np.zeros(agents, int)

    @property
    def slots(self) -> int:
        return self._storage.slots

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
        """Stores a new episode's first frames, for the agents where `starting` (agents,) is true."""
        self.episode_steps[starting] = 0
        agents = len(starting)
        nowhere, no_window = np.full(agents, self.slots), np.zeros((agents, self.horizon), bool)
        self._store(nowhere, np.zeros((agents, len(FLAGS) + self.spec.action_size)), no_window, starting, frames)

    def append(self, step: Transitions) -> None:
        """Stores one transition of every agent."""
        agents = len(step.rewards)
        flags = (step.rewards, step.terminated, np.ones(agents), self._stacked())
        records = np.concatenate([np.stack(flags, 1), step.actions], 1)
        # The state `horizon` steps back has its window now; a termination completes every window still open.
        self.episode_steps += 1
        back = np.arange(self.horizon)
        ready = (back < self.episode_steps[:, None]) & ((back == self.horizon - 1) | step.terminated[:, None])
        self._store(self.cursor.copy(), records, ready, np.ones(agents, bool), step.next_frames)

    def _store(self, slots: Array, records: Array, ready: Array, opening: Array, frames: Array) -> None:
        """Writes records to their slots; then opens a fresh slot with the next observation for the agents `opening`."""
        windows = np.where(ready, (self.cursor[:, None] - np.arange(self.horizon)) % self.slots, self.slots)
        overwriting = opening & (self.filled == self.slots)
        self.cursor[opening] = (self.cursor[opening] + 1) % self.slots
        self.filled[opening] = np.minimum(self.filled[opening] + 1, self.slots)
        # The overwritten state is gone, and with it the stacks that reach back to it.
        lost = (self.cursor[:, None] + np.arange(self.spec.history)) % self.slots
        lost = np.where(overwriting[:, None], lost, self.slots)
        opened = np.column_stack([np.where(opening, self.cursor, self.slots), lost])
        fresh = np.zeros_like(records)
        fresh[:, FLAGS.index("preceding")] = self._stacked()
        self._storage.staged.send(
            slots=np.column_stack([slots, opened[:, 0], windows, opened[:, 1:]]),
            records=np.stack([records, fresh], 1).astype(np.float32),
            ready=ready,
            frames=frames,
        )
        self._write()

    def update_priorities(self, slots: Tensor, td_errors: Tensor) -> None:
        """Gives sampled slots (agents, count) priorities by their TD errors (agents, count)."""
        self._storage.priorities.update(slots, td_errors)

    def present_state(self, agent: int) -> Array:
        """Returns what an agent sees now (history, *frame_shape), padded, as environments give it."""
        slots = torch.from_numpy(self.cursor).to(self.frames.device)[:, None, None]
        state = self._storage.states(slots)[agent, 0, 0]
        return state.cpu().numpy().reshape(self.spec.history, *self.spec.frame_shape)

    def mean_absolute_reward(self) -> Tensor:
        """Returns each agent's mean absolute reward (agents,)."""
        filled = int(self.filled.max())
        total = self.rewards[:, :filled].abs().sum(1, dtype=torch.float64)
        return (total / self._storage.complete[:, :filled].sum(1)).float()

    def can_sample(self) -> Array:
        """Says of each agent (agents,) whether it has a state that may be sampled."""
        return (self.priorities.sums > 0).any(1).cpu().numpy()

    def episode_actions(self, agent: int) -> Array | None:
        """Returns the actions of the current episode, padded, or None if the ring has overwritten some of them."""
        steps = self.episode_steps[agent]
        if steps >= self.slots:
            return None
        slots = (self.cursor[agent] - steps + np.arange(steps)) % self.slots
        return self.actions[agent, torch.from_numpy(slots).to(self.frames.device)].cpu().numpy()

    def state_of(self, agent: int) -> tuple[dict[str, Array], dict[str, int]]:
        """Returns all that one agent's replay holds, as arrays and counters, without padding."""
        filled = int(self.filled[agent])
        arrays = {name: block.cpu().numpy() for name, block in self._own(agent, filled).items()}
        for name in arrays:
            if kind := SAVED_AS.get(name.partition("-")[0]):
                arrays[name] = arrays[name].astype(kind)
        arrays["priority_sums"] = self.priorities.sums_of(agent, filled).cpu().numpy()
        arrays["highest_priority"] = self.priorities.highest[agent].cpu().numpy()
        arrays["terminated_before"] = self.terminated_before[agent].cpu().numpy()
        return arrays, {name: int(getattr(self, name)[agent]) for name in COUNTERS}

    def load_state_of(self, agent: int, arrays: Mapping[str, Array], counters: Mapping[str, int]) -> None:
        """Restores what `state_of` returned, from a ring of this size or, if it had not wrapped, a smaller one."""
        self._check(counters)
        for name, block in self._own(agent, counters["filled"]).items():
            restore(block, arrays, name, SAVED_AS.get(name.partition("-")[0]))
        restore(self.priorities.sums_of(agent, counters["filled"]), arrays, "priority_sums")
        restore(self.priorities.highest[agent], arrays, "highest_priority")
        restore(self.terminated_before[agent], arrays, "terminated_before")
        refuse_unless(self.priorities.are_sound(agent), "the priorities")
        refuse_unless(int(self._storage.preceding[agent].max()) < self.spec.history, "the stacks")
        for name in COUNTERS:
            getattr(self, name)[agent] = counters[name]

    def _check(self, counters: Mapping[str, int]) -> None:
        """Refuses counters that no ring of this size can have."""
        cursor, filled, steps = (counters[name] for name in COUNTERS)
        refuse_unless(is_count(filled, 0, self.slots) and is_count(cursor, -1, self.slots - 1), "the replay's ring")
        refuse_unless(cursor == filled - 1 if filled < self.slots else cursor >= 0, "the replay's ring")
        refuse_unless(
            is_count(steps) and (steps < filled or filled == self.slots or filled == 0), "the episode's length"
        )

    def make_room(self, slots: int) -> bool:
        """Grows to so many slots, if it has fewer; says whether it did. It must not have wrapped."""
        if slots <= self.slots:
            return False
        held = [self.state_of(agent) for agent in range(len(self.cursor))]
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
