"""The replay of P agents: every observation stored once, windows and stacks rebuilt when they are sampled.

Each agent has a ring of slots. A slot holds one observation and what followed it: action, reward, whether that ended
the episode. An episode of T steps takes T + 1 slots; its last observation has no action. Windows run forwards from a
slot and stacks backwards, never across an episode's edge nor across the place where the ring is being overwritten.

A state may be sampled once `horizon` transitions from it are in, or its episode has terminated: that is when its
priority rises above 0. The last states of a truncated episode stay at 0.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from mrq.errors import MRQError
from mrq.execution import Captured, OnFailure, compiled
from mrq.hyperparameters import SMALLEST_CAPACITY, Hyperparameters
from mrq.interface import Array, Spec, Transitions, Windows, common_spec
from mrq.replay.memory import available_memory, in_pinned_memory, readable
from mrq.replay.priorities import Priorities
from mrq.replay.staging import Staging

COUNTERS = ("cursor", "filled", "episode_steps")
FLAGS = ("rewards", "terminated", "complete", "preceding")  # what a record holds before the action
UPDATES_MEMORY = 4_000_000_000  # bytes that updates on images may need beside the replay
BLOCK_BYTES = 64_000_000  # of one array of a saved state, so that most are as they were when next saved
SAVED_AS = {"terminated": np.bool_, "complete": np.bool_, "preceding": np.uint8}


class Replay:
    def __init__(
        self,
        specs: Sequence[Spec],
        hyperparameters: Hyperparameters,
        slots: int,
        device: torch.device,
        lead: int = 0,  # steps that may be appended before the device has come to them
    ) -> None:
        agents, spec = len(specs), common_spec(specs)
        self.specs, self.spec, self.hyperparameters = specs, spec, hyperparameters
        self.slots, self.device, self.lead = slots, device, lead
        self.horizon = hyperparameters.longest_horizon
        # One slot more than the ring has takes what is written for nobody, so that every write has the same shape.
        self.frames = _frames(agents, spec, slots, device)
        if spec.image:  # a GPU copies eight bytes as fast as one
            self._words = self.frames.flatten(2).view(torch.int64)
        # A slot's numbers lie side by side, so that one look-up finds them all.
        self._records = _zeros((agents, slots + 1, len(FLAGS) + spec.action_size), torch.float32, device)
        self.rewards = self._records[..., 0]
        self.terminated = self._records[..., 1]
        self.complete = self._records[..., 2]  # an action followed this observation
        self.preceding = self._records[..., 3]  # earlier frames of its episode, up to a stack
        self.actions = self._records[..., len(FLAGS) :]
        self.priorities = Priorities(
            agents, slots + 1, hyperparameters.priority_exponent, hyperparameters.minimum_priority, device
        )
        self.terminated_before = torch.zeros(agents, dtype=torch.bool, device=device)  # has any episode terminated?
        self.cursor = np.full(agents, -1)  # the slot of each agent's present observation
        self.filled = np.zeros(agents, int)
        self.episode_steps = np.zeros(agents, int)
        self._rows = torch.arange(agents, device=device)
        self._step = Staging(
            device,
            places=max(2 * lead, 1),  # a step may begin an episode, too
            slots=((agents, 2 + self.horizon + spec.history), torch.int64),
            records=((agents, 2, self._records.shape[-1]), torch.float32),
            ready=((agents, self.horizon), torch.bool),
            frames=((agents, *spec.frame_shape), self.frames.dtype),
        )

    def compile(self, on_failure: OnFailure) -> None:
        """From now on, samples compiled; on a GPU, what is done at every step is replayed as a CUDA graph."""
        self._windows = compiled(partial(Replay._windows, self), on_failure)  # type: ignore[method-assign]
        if self.device.type == "cuda":
            self._write = Captured(partial(Replay._write, self), on_failure)  # type: ignore[method-assign]

    def begin(self, starting: Array, frames: Array) -> None:
        """A new episode's first frames, for the agents where `starting` (agents,) is true."""
        self.episode_steps[starting] = 0
        agents = len(starting)
        nowhere, no_window = np.full(agents, self.slots), np.zeros((agents, self.horizon), bool)
        self._store(nowhere, np.zeros((agents, self._records.shape[-1]), np.float32), no_window, starting, frames)

    def append(self, step: Transitions) -> None:
        """One transition of every agent."""
        agents = len(step.rewards)
        flags = (step.rewards, step.terminated, np.ones(agents), self._stacked())
        records = np.concatenate([np.stack(flags, 1), step.actions], 1).astype(np.float32)
        # The state `horizon` steps back has its window now; a termination completes every window still open.
        self.episode_steps += 1
        back = np.arange(self.horizon)
        ready = (back < self.episode_steps[:, None]) & ((back == self.horizon - 1) | step.terminated[:, None])
        self._store(self.cursor.copy(), records, ready, np.ones(agents, bool), step.next_frames)

    def _store(self, slots: Array, records: Array, ready: Array, opening: Array, frames: Array) -> None:
        """Records at their slots; then, for the agents `opening` one, a fresh slot that holds the next observation."""
        windows = np.where(ready, (self.cursor[:, None] - np.arange(self.horizon)) % self.slots, self.slots)
        self.cursor[opening] = (self.cursor[opening] + 1) % self.slots
        self.filled[opening] = np.minimum(self.filled[opening] + 1, self.slots)
        # The overwritten state is gone, and with it the stacks that reach back to it.
        lost = (self.cursor[:, None] + np.arange(self.spec.history)) % self.slots
        opened = np.where(opening[:, None], np.column_stack([self.cursor, lost]), self.slots)
        fresh = np.zeros_like(records)
        fresh[:, FLAGS.index("preceding")] = self._stacked()
        self._step.send(
            slots=np.column_stack([slots, opened[:, 0], windows, opened[:, 1:]]),
            records=np.stack([records, fresh], 1),
            ready=ready,
            frames=frames,
        )
        self._write()

    def _write(self) -> None:
        """What was staged goes to its slots."""
        step, rows = self._step.device, self._rows[:, None]
        slots = step["slots"]
        self._records[rows, slots[:, :2]] = step["records"]
        self.frames[self._rows, slots[:, 1]] = step["frames"]
        self.terminated_before |= step["records"][:, 0, FLAGS.index("terminated")] > 0
        risen = torch.where(step["ready"], self.priorities.highest[:, None], 0.0)
        lost = risen.new_zeros(len(risen), self.spec.history)
        self.priorities.set(rows, slots[:, 2:], torch.cat([risen, lost], 1))

    def sample(self, uniforms: Tensor, states: Sequence[int]) -> Windows:
        """Windows for uniforms (agents, count), with their states at the ascending offsets `states`.

        The last of these is the window's horizon. Behind a termination the terminal observation is repeated, with
        zero actions and rewards, and `alive` is 0.
        """
        windows: Windows = self._windows(uniforms, list(states))
        return windows

    def _windows(self, uniforms: Tensor, states: list[int]) -> Windows:
        horizon, rows = states[-1], self._rows[:, None, None]
        first = self.priorities.draw(uniforms)[..., None]  # (agents, count, 1)
        steps = (first + torch.arange(horizon, device=self.device)) % self.slots
        going_on = (1 - self.terminated[rows, steps]).cumprod(-1)
        alive = torch.cat([torch.ones_like(going_on[..., :1]), going_on], -1)  # (agents, count, horizon + 1)
        offsets = (alive.cumsum(-1) - alive).long()  # how far the episode went before each step
        path = (first + offsets) % self.slots
        records = self._records[rows, path[..., :-1]]
        return Windows(
            slots=first.squeeze(-1),
            states=self._states(torch.stack([path[..., offset] for offset in states], -1)),
            actions=records[..., len(FLAGS) :],
            rewards=records[..., 0],
            alive=alive,
        )

    def present_state(self, agent: int) -> Array:
        """What an agent sees now (history, *frame_shape), padded, as environments give it."""
        slots = torch.from_numpy(self.cursor).to(self.device)[:, None, None]
        return self._states(slots)[agent, 0, 0].cpu().numpy().reshape(self.spec.history, *self.spec.frame_shape)

    def mean_absolute_reward(self) -> Tensor:
        """(agents,)"""
        filled = int(self.filled.max())
        total = self.rewards[:, :filled].abs().sum(1, dtype=torch.float64)
        return (total / self.complete[:, :filled].sum(1)).float()

    def can_sample(self) -> Array:
        """(agents,), whether each has a state that may be sampled."""
        return (self.priorities.sums > 0).any(1).cpu().numpy()

    def episode_actions(self, agent: int) -> Array | None:
        """The actions of the episode under way, padded, or None if the ring has already overwritten some of them."""
        steps = self.episode_steps[agent]
        if steps >= self.slots:
            return None
        slots = (self.cursor[agent] - steps + np.arange(steps)) % self.slots
        return self.actions[agent, torch.from_numpy(slots).to(self.device)].cpu().numpy()

    def state_of(self, agent: int) -> tuple[dict[str, Array], dict[str, int]]:
        """All that one agent's replay holds, as arrays and counters, without what pads it."""
        filled = int(self.filled[agent])
        arrays = {name: block.cpu().numpy() for name, block in self._own(agent, filled).items()}
        for name in arrays:
            if kind := SAVED_AS.get(name.partition("-")[0]):
                arrays[name] = arrays[name].astype(kind)
        arrays["priority_sums"] = self.priorities.sums_of(agent, filled).cpu().numpy()
        arrays["highest_priority"] = self.priorities.highest[agent].cpu().numpy()
        arrays["terminated_before"] = self.terminated_before[agent].cpu().numpy()
        return arrays, {name: int(getattr(self, name)[agent]) for name in COUNTERS}

    def load_state_of(self, agent: int, arrays: dict[str, Array], counters: dict[str, int]) -> None:
        """Takes up what `state_of` gave, from a ring of this size or, if it had not wrapped, a smaller one."""
        for name, block in self._own(agent, counters["filled"]).items():
            block.copy_(torch.from_numpy(arrays[name]))
        self.priorities.sums_of(agent, counters["filled"]).copy_(torch.from_numpy(arrays["priority_sums"]))
        self.priorities.highest[agent] = float(arrays["highest_priority"])
        self.terminated_before[agent] = bool(arrays["terminated_before"])
        for name in COUNTERS:
            getattr(self, name)[agent] = counters[name]

    def grown(self, slots: int) -> "Replay":
        """A replay of more slots that holds the same; this one must not have wrapped."""
        larger = Replay(self.specs, self.hyperparameters, slots, self.device, self.lead)
        for agent in range(len(self.cursor)):
            larger.load_state_of(agent, *self.state_of(agent))
        return larger

    def _stacked(self) -> Array:
        """How many earlier frames each present state holds."""
        return np.minimum(self.episode_steps, self.spec.history - 1)

    def _states(self, slots: Tensor) -> Tensor:
        """States (agents, count, chosen, *state_shape) of slots (agents, count, chosen)."""
        rows = self._rows[:, None, None]
        if not self.spec.image:
            return self.frames[rows, slots]
        back = torch.arange(self.spec.history - 1, -1, -1, device=self.device)
        back = torch.minimum(back, self.preceding[rows, slots].long()[..., None])  # repeats an episode's first frame
        stacks = self._words[rows[..., None], (slots[..., None] - back) % self.slots]
        return stacks.view(torch.uint8).view(*slots.shape, *self.spec.state_shape)

    def _own(self, agent: int, filled: int) -> dict[str, Tensor]:
        """One agent's slots without what pads them, by name and number of the block."""
        spec, frames = self.specs[agent], self.frames[agent, :filled]
        whole = {
            "frames": frames if spec.image else frames[:, : spec.frame_shape[0]],
            "actions": self.actions[agent, :filled, : spec.action_size],
            "priorities": self.priorities.values[agent, :filled],
        } | {name: getattr(self, name)[agent, :filled] for name in FLAGS}
        return {f"{name}-{n}": block for name, tensor in whole.items() for n, block in enumerate(_blocks(tensor))}


def _blocks(tensor: Tensor) -> tuple[Tensor, ...]:
    """As many slots each as a block takes."""
    return torch.split(tensor, max(BLOCK_BYTES // (tensor.shape[1:].numel() * tensor.element_size()), 1))


def slots_needed(total_steps: int, hyperparameters: Hyperparameters) -> int:
    """An observation a step and one more an episode, which may be a single step long.

    Deviation: the capacity counts observations, of which an episode has one more than transitions.
    """
    return min(hyperparameters.replay_capacity, max(2 * total_steps, SMALLEST_CAPACITY))


def reserve(agents: int, spec: Spec, slots: int, device: torch.device) -> str:
    """Says what memory a replay will take at most and where, or refuses where the machine does not have it."""
    frames, records = bytes_needed(agents, spec, slots)
    needed, available = frames + records, available_memory(device)
    what = f"replay of up to {slots:,} observations an agent"
    if _frames_in_host_memory(agents, spec, slots, device):
        on_host = available_memory(torch.device("cpu"))
        if frames <= on_host and records <= available:
            return (
                f"{what}: {readable(frames)} of frames in pinned host memory, of {readable(on_host)} free, and "
                f"{readable(records)} on {device}, of {readable(available)} free"
            )
    elif needed <= available:
        return f"{what}: {readable(needed)} of {readable(available)} free on {device}"
    raise MRQError(
        f"the replay would take {readable(needed)} and {device} has {readable(available)} free; "
        f"--replay-capacity {slots * available // needed * 9 // 10} would fit, as would fewer agents or steps."
    )


def _frames_in_host_memory(agents: int, spec: Spec, slots: int, device: torch.device) -> bool:
    """Whether a GPU has no room for images, beside the rest and what updates need."""
    needed = sum(bytes_needed(agents, spec, slots)) + UPDATES_MEMORY
    return device.type == "cuda" and spec.image and needed > available_memory(device)


def bytes_needed(agents: int, spec: Spec, slots: int) -> tuple[int, int]:
    """Of the frames, and of all else."""
    frame = int(np.prod(spec.frame_shape)) * np.dtype(spec.frame_dtype).itemsize
    return agents * slots * frame, agents * slots * 4 * (len(FLAGS) + spec.action_size + 1)


def _frames(agents: int, spec: Spec, slots: int, device: torch.device) -> Tensor:
    """With a slot more than the ring has; where a GPU has no room for images, in host memory that it reads directly."""
    shape, dtype = (agents, slots + 1, *spec.frame_shape), torch.uint8 if spec.image else torch.float32
    if _frames_in_host_memory(agents, spec, slots, device):
        return in_pinned_memory(shape, device)
    return _zeros(shape, dtype, device)


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """On the CPU, memory that the system hands out only once it is written to."""
    if device.type == "cpu":
        return torch.from_numpy(np.zeros(shape, torch.empty((), dtype=dtype).numpy().dtype))
    return torch.zeros(shape, dtype=dtype, device=device)
