"""The device's side of the replay: the tensors, how a step is written to them, and how windows are read."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mrq.interface import WORD, ReplaySettings, Spec, Windows
from mrq.replay.allocation import FLAGS, zero_frames, zeros
from mrq.replay.priorities import Priorities
from mrq.replay.staging import Staging


class Storage:
    """A ring of slots per environment. An agent's environments, its copies, take turns: slot s is of copy s % copies.

    One slot more takes what is written for none, so every write has the same shape. A slot's numbers lie side by side,
    so that one look-up finds them all.
    """

    frames: Tensor  # (agents, slots + 1, *frame_shape)
    records: Tensor  # (agents, slots + 1, flags and action)
    priorities: Priorities

    def __init__(
        self, agents: int, spec: Spec, settings: ReplaySettings, slots: int, device: torch.device, copies: int
    ) -> None:
        self.spec, self.settings, self.device, self.copies = spec, settings, device, copies
        self.terminated_before = torch.zeros(agents, dtype=torch.bool, device=device)  # has any episode terminated?
        self.rows = torch.arange(agents, device=device)
        self.allocate(slots)
        self.staged = Staging(
            device,
            slots=((agents, copies * (2 + settings.horizon + spec.history)), torch.int64),
            records=((agents, 2 * copies, len(FLAGS) + spec.action_size), torch.float32),
            ready=((agents, copies * settings.horizon), torch.bool),
            frames=((agents, copies, *spec.frame_shape), self.frames.dtype),
        )

    def allocate(self, slots: int) -> None:
        """Makes room for so many slots, all empty."""
        agents, spec, settings, device = len(self.rows), self.spec, self.settings, self.device
        self.slots = slots
        self.frames = zero_frames(agents, spec, slots, device)
        self._rows = self.frames.flatten(2)
        if spec.images and self._rows.shape[-1] % WORD == 0:
            self._rows = self._rows.view(torch.int64)
        self.records = zeros((agents, slots + 1, len(FLAGS) + spec.action_size), torch.float32, device)
        exponent, minimum = settings.priority_exponent, settings.minimum_priority
        self.priorities = Priorities(agents, slots + 1, exponent, minimum, device)

    @property
    def rewards(self) -> Tensor:
        return self.records[..., 0]

    @property
    def terminated(self) -> Tensor:
        return self.records[..., 1]

    @property
    def complete(self) -> Tensor:
        """1 where an action followed the observation."""
        return self.records[..., 2]

    @property
    def preceding(self) -> Tensor:
        """How many earlier frames of its episode a state's stack holds."""
        return self.records[..., 3]

    @property
    def actions(self) -> Tensor:
        return self.records[..., len(FLAGS) :]

    def write(self) -> None:
        """Writes what is staged to its slots."""
        staged, rows, copies = self.staged.device, self.rows[:, None], self.copies
        slots = staged["slots"]
        self.records[rows, slots[:, : 2 * copies]] = staged["records"]
        self.frames[rows, slots[:, copies : 2 * copies]] = staged["frames"]
        self.terminated_before |= (staged["records"][:, :copies, FLAGS.index("terminated")] > 0).any(1)
        risen = torch.where(staged["ready"], self.priorities.highest[:, None], 0.0)
        lost = risen.new_zeros(len(risen), copies * self.spec.history)
        self.priorities.set(rows, slots[:, 2 * copies :], torch.cat([risen, lost], 1))

    def windows(self, uniforms: Tensor, states: Sequence[int]) -> Windows:
        """Returns windows for uniforms (agents, count), with their states at the ascending offsets `states`.

        The last of these is the window's horizon. After a termination the terminal observation is repeated, with
        zero actions and rewards, and `alive` is 0.
        """
        horizon, rows, copies = states[-1], self.rows[:, None, None], self.copies
        first = self.priorities.draw(uniforms)[..., None]  # (agents, count, 1)
        steps = (first + copies * torch.arange(horizon, device=self.device)) % self.slots
        continuing = (1 - self.terminated[rows, steps]).cumprod(-1)
        alive = torch.cat([torch.ones_like(continuing[..., :1]), continuing], -1)  # (agents, count, horizon + 1)
        offsets = (alive.cumsum(-1) - alive).long()  # how far the episode went before each step
        path = (first + copies * offsets) % self.slots
        records = self.records[rows, path[..., :-1]]
        return Windows(
            slots=first.squeeze(-1),
            states=self.states(torch.stack([path[..., offset] for offset in states], -1)),
            actions=records[..., len(FLAGS) :],
            rewards=records[..., 0],
            alive=alive,
        )

    def states(self, slots: Tensor) -> Tensor:
        """Returns states (agents, count, chosen, *state_shape) of slots (agents, count, chosen)."""
        rows = self.rows[:, None, None]
        if self.spec.history == 1 and not self.spec.images:
            return self.frames[rows, slots]
        back = torch.arange(self.spec.history - 1, -1, -1, device=self.device)
        back = torch.minimum(back, self.preceding[rows, slots].long()[..., None])  # repeats an episode's first frame
        stacks = self._rows[rows[..., None], (slots[..., None] - self.copies * back) % self.slots]
        return stacks.view(self.frames.dtype).view(*slots.shape, *self.spec.state_shape)
