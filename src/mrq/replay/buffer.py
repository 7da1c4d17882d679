"""The replay of P agents: every observation stored once, windows and stacks rebuilt when they are sampled.

Each agent has a ring of slots. A slot holds one observation and what followed it: action, reward, whether that ended
the episode. An episode of T steps takes T + 1 slots; its last observation has no action. Windows run forwards from a
slot and stacks backwards, never across an episode's edge nor across the place where the ring is being overwritten.

A state may be sampled once `horizon` transitions from it are in, or its episode has terminated: that is when its
priority rises above 0. The last states of a truncated episode stay at 0.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mrq.errors import MRQError
from mrq.hyperparameters import SMALLEST_CAPACITY, Hyperparameters
from mrq.interface import Array, Spec, Transitions, Windows
from mrq.replay.memory import available_memory, readable
from mrq.replay.priorities import Priorities

COUNTERS = ("cursor", "filled", "episode_steps")


class Replay:
    def __init__(
        self, agents: int, spec: Spec, hyperparameters: Hyperparameters, slots: int, device: torch.device
    ) -> None:
        self.spec, self.hyperparameters, self.slots, self.device = spec, hyperparameters, slots, device
        self.horizon = hyperparameters.longest_horizon
        self.frames = _zeros((agents, slots, *spec.frame_shape), torch.uint8 if spec.image else torch.float32, device)
        self.actions = _zeros((agents, slots, spec.action_size), torch.float32, device)
        self.rewards = _zeros((agents, slots), torch.float32, device)
        self.terminated = _zeros((agents, slots), torch.bool, device)
        self.complete = _zeros((agents, slots), torch.bool, device)  # an action followed this observation
        self.preceding = _zeros((agents, slots), torch.uint8, device)  # earlier frames of its episode, up to a stack
        self.priorities = Priorities(
            agents, slots, hyperparameters.priority_exponent, hyperparameters.minimum_priority, device
        )
        self.terminated_before = torch.zeros(agents, dtype=torch.bool, device=device)  # has any episode terminated?
        self.cursor = np.full(agents, -1)  # the slot of each agent's present observation
        self.filled = np.zeros(agents, int)
        self.episode_steps = np.zeros(agents, int)
        self._rows = torch.arange(agents, device=device)

    def begin(self, starting: Array, frames: Array) -> None:
        """A new episode's first frames, for the agents where `starting` (agents,) is true."""
        self.episode_steps[starting] = 0
        self._open(np.flatnonzero(starting), frames[starting])

    def append(self, step: Transitions) -> None:
        """One transition of every agent."""
        rows, cursor = self._rows, self._tensor(self.cursor)
        self.actions[rows, cursor] = self._tensor(step.actions)
        self.rewards[rows, cursor] = self._tensor(step.rewards)
        self.terminated[rows, cursor] = self._tensor(step.terminated)
        self.complete[rows, cursor] = True
        self.terminated_before |= self.terminated[rows, cursor]
        # The state `horizon` steps back has its window now; a termination completes every window still open.
        self.episode_steps += 1
        back = np.arange(self.horizon)
        is_ready = (back < self.episode_steps[:, None]) & ((back == self.horizon - 1) | step.terminated[:, None])
        agents, offsets = np.nonzero(is_ready)
        ready = self._tensor((self.cursor[agents] - offsets) % self.slots)
        self._open(np.arange(len(self.cursor)), step.next_frames)
        owners = self._tensor(agents)
        self.priorities.set(owners, ready, self.priorities.highest[owners])

    def sample(self, uniforms: Tensor, states: Sequence[int]) -> Windows:
        """Windows for uniforms (agents, count), with their states at the ascending offsets `states`.

        The last of these is the window's horizon. Behind a termination the terminal observation is repeated, with
        zero actions and rewards, and `alive` is 0.
        """
        horizon = states[-1]
        rows = self._rows[:, None, None]
        first = self.priorities.draw(uniforms)[..., None]  # (agents, count, 1)
        steps = (first + torch.arange(horizon, device=self.device)) % self.slots
        alive = torch.ones(*steps.shape[:2], horizon + 1, device=self.device)
        alive[..., 1:] = (~self.terminated[rows, steps]).cumprod(-1)
        offsets = alive.cumsum(-1).long() - alive.long()  # how far the episode went before each step
        path = (first + offsets) % self.slots  # (agents, count, horizon + 1)
        taken = path[..., :-1]
        return Windows(
            slots=first.squeeze(-1),
            states=self._states(path[..., list(states)]),
            actions=self.actions[rows, taken],
            rewards=self.rewards[rows, taken],
            alive=alive,
        )

    def latest_states(self) -> Tensor:
        """Each agent's present state (agents, 1, *state_shape)."""
        return self._states(self._tensor(self.cursor)[:, None, None])[:, 0]

    def mean_absolute_reward(self) -> Tensor:
        """(agents,)"""
        filled = int(self.filled.max())
        total = self.rewards[:, :filled].abs().sum(1, dtype=torch.float64)
        return (total / self.complete[:, :filled].sum(1)).float()

    def can_sample(self) -> bool:
        """Whether every agent has a state that may be sampled."""
        return bool((self.priorities.sums > 0).any(1).all())

    def episode_actions(self, agent: int) -> Array | None:
        """The actions of the episode under way, or None if the ring has already overwritten some of them."""
        steps = self.episode_steps[agent]
        if steps >= self.slots:
            return None
        slots = (self.cursor[agent] - steps + np.arange(steps)) % self.slots
        return self.actions[agent, self._tensor(slots)].cpu().numpy()

    def present_frame(self, agent: int) -> Array:
        return self.frames[agent, int(self.cursor[agent])].cpu().numpy()

    def state_of(self, agent: int) -> tuple[dict[str, Array], dict[str, int]]:
        """All that one agent's replay holds, as arrays and counters; on the CPU the arrays are views."""
        filled = int(self.filled[agent])
        arrays = {name: tensor[agent, :filled].cpu().numpy() for name, tensor in self._per_slot().items()}
        arrays["priority_sums"] = self.priorities.sums[agent].cpu().numpy()
        arrays["highest_priority"] = self.priorities.highest[agent].cpu().numpy()
        arrays["terminated_before"] = self.terminated_before[agent].cpu().numpy()
        return arrays, {name: int(getattr(self, name)[agent]) for name in COUNTERS}

    def load_state_of(self, agent: int, arrays: dict[str, Array], counters: dict[str, int]) -> None:
        """Takes up what `state_of` gave, from a ring of this size or, if it had not wrapped, a smaller one."""
        filled = counters["filled"]
        for name, tensor in self._per_slot().items():
            tensor[agent, :filled] = torch.from_numpy(arrays[name]).to(self.device)
        sums = torch.from_numpy(arrays["priority_sums"]).to(self.device)
        self.priorities.sums[agent, : len(sums)] = sums
        self.priorities.highest[agent] = float(arrays["highest_priority"])
        self.terminated_before[agent] = bool(arrays["terminated_before"])
        for name in COUNTERS:
            getattr(self, name)[agent] = counters[name]

    def grown(self, slots: int) -> "Replay":
        """A replay of more slots that holds the same; this one must not have wrapped."""
        larger = Replay(len(self.cursor), self.spec, self.hyperparameters, slots, self.device)
        for agent in range(len(self.cursor)):
            larger.load_state_of(agent, *self.state_of(agent))
        return larger

    def _open(self, agents: Array, frames: Array) -> None:
        """Moves the cursors of `agents` on to a fresh slot that holds the next observation."""
        self.cursor[agents] = (self.cursor[agents] + 1) % self.slots
        self.filled[agents] = np.minimum(self.filled[agents] + 1, self.slots)
        rows, cursor = self._tensor(agents), self._tensor(self.cursor[agents])
        self.frames[rows, cursor] = self._tensor(frames)
        self.actions[rows, cursor] = 0
        self.rewards[rows, cursor] = 0
        self.terminated[rows, cursor] = False
        self.complete[rows, cursor] = False
        self.preceding[rows, cursor] = self._tensor(
            np.minimum(self.episode_steps[agents], self.spec.history - 1).astype(np.uint8)
        )
        # The overwritten state is gone, and with it the stacks that reach back to it.
        lost = (cursor[:, None] + torch.arange(self.spec.history, device=self.device)) % self.slots
        rows = rows[:, None].expand_as(lost)
        self.priorities.set(rows.flatten(), lost.flatten(), torch.zeros(lost.numel(), device=self.device))

    def _states(self, slots: Tensor) -> Tensor:
        """States (agents, count, chosen, *state_shape) of slots (agents, count, chosen)."""
        rows = self._rows[:, None, None]
        if self.spec.history == 1:
            return self.frames[rows, slots]
        back = torch.arange(self.spec.history - 1, -1, -1, device=self.device)
        back = torch.minimum(back, self.preceding[rows, slots].long()[..., None])  # repeats an episode's first frame
        return self.frames[rows[..., None], (slots[..., None] - back) % self.slots].flatten(3, 4)

    def _per_slot(self) -> dict[str, Tensor]:
        return {
            "frames": self.frames,
            "actions": self.actions,
            "rewards": self.rewards,
            "terminated": self.terminated,
            "complete": self.complete,
            "preceding": self.preceding,
            "priorities": self.priorities.values,
        }

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)


def slots_needed(total_steps: int, hyperparameters: Hyperparameters) -> int:
    """An observation a step and one more an episode, which may be a single step long.

    Deviation: the capacity counts observations, of which an episode has one more than transitions.
    """
    return min(hyperparameters.replay_capacity, max(2 * total_steps, SMALLEST_CAPACITY))


def reserve(agents: int, spec: Spec, slots: int, device: torch.device) -> str:
    """Says what memory a replay will take at most, or refuses where the machine does not have it."""
    item = 1 if spec.image else 4
    a_slot = agents * (int(np.prod(spec.frame_shape)) * item + 4 * spec.action_size + 4 + 1 + 1 + 1 + 4)
    needed, available = a_slot * slots, available_memory(device)
    if needed > available:
        raise MRQError(
            f"the replay would take {readable(needed)} and {device} has {readable(available)} free; "
            f"--replay-capacity {available // a_slot * 9 // 10} would fit, as would fewer agents or steps."
        )
    return f"replay of up to {slots:,} observations an agent: {readable(needed)} of {readable(available)} free"


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """On the CPU, memory that the system hands out only once it is written to."""
    if device.type == "cpu":
        return torch.from_numpy(np.zeros(shape, torch.empty((), dtype=dtype).numpy().dtype))
    return torch.zeros(shape, dtype=dtype, device=device)
