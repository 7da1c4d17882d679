"""LAP (Fujimoto et al., 2020): slots are drawn with probability proportional to their priority.

Two levels: the priorities, and their sums over blocks. A draw looks for its block among the sums, then for its slot
inside the block, so that nothing ever scans the whole replay. A slot of priority 0 is never drawn: that is how the
buffer says which states may be sampled.
"""

import torch
from torch import Tensor

from mrq.execution import widest_float

BLOCK = 256


class Priorities:
    """The priorities of P agents' slots."""

    def __init__(self, agents: int, slots: int, exponent: float, minimum: float, device: torch.device) -> None:
        self.exponent, self.minimum, self.slots = exponent, minimum, slots
        blocks = -(-slots // BLOCK)
        self.values = torch.zeros(agents, blocks * BLOCK, device=device)
        self.sums = torch.zeros(agents, blocks, device=device)
        self.highest = torch.full((agents,), minimum**exponent, device=device)  # a new slot's priority
        self._blocks = self.values.view(agents, blocks, BLOCK)
        self._rows = torch.arange(agents, device=device)[:, None]
        self._accurate = widest_float(device)

    def set(self, rows: Tensor, slots: Tensor, priorities: Tensor) -> None:
        """Gives the slots (agents, count) of the agents `rows` (agents, 1) new priorities (agents, count)."""
        self.values[rows, slots] = priorities
        self._refresh(rows, slots // BLOCK)

    def update(self, slots: Tensor, td_errors: Tensor) -> None:
        """Sets the priorities of sampled slots (agents, count) by their TD errors (agents, count).

        Deviation: where a slot was sampled twice, the larger error counts, whatever order a GPU writes them in.
        """
        priorities = td_errors.clamp(min=self.minimum).pow(self.exponent)
        self.values.scatter_(1, slots, 0.0)
        self.values.scatter_reduce_(1, slots, priorities, "amax")
        self._refresh(self._rows, slots // BLOCK)
        self.highest.copy_(torch.maximum(self.highest, priorities.amax(1)))

    def draw(self, uniforms: Tensor) -> Tensor:
        """Draws slots (agents, count) for uniforms in [0, 1), float64 so that each of a million gets its fair share.

        Apple's GPUs have float32 alone. An agent without any priority gets an arbitrary slot; only an agent that no
        longer trains has none.
        """
        ends = self.sums.to(self._accurate).cumsum(1)  # (agents, blocks)
        points = uniforms * ends[:, -1:]
        block = _first_beyond(ends, points).clamp(max=ends.shape[1] - 1)  # (agents, count)
        starts = torch.where(block > 0, ends.gather(1, (block - 1).clamp(min=0)), 0.0)
        inside = self._blocks[self._rows, block].cumsum(-1)  # (agents, count, BLOCK)
        place = _first_beyond(inside, (points - starts).float()[..., None]).squeeze(-1)
        return (block * BLOCK + place).clamp(max=self.slots - 1)

    def sums_of(self, agent: int, filled: int) -> Tensor:
        """Returns one agent's sums over the blocks of its first slots; all others are 0."""
        return self.sums[agent, : -(-filled // BLOCK)]

    def are_sound(self, agent: int) -> bool:
        """Says whether one agent's priorities are what drawing relies on: not negative, and added up in the sums."""
        values, sums, highest = self.values[agent], self.sums[agent], self.highest[agent]
        added = self._blocks[agent].sum(-1)
        return bool((values >= 0).all() and highest >= values.max() and torch.allclose(sums, added, rtol=1e-3))

    def _refresh(self, rows: Tensor, blocks: Tensor) -> None:
        self.sums[rows, blocks] = self._blocks[rows, blocks].sum(-1)


def _first_beyond(ends: Tensor, points: Tensor) -> Tensor:
    """Returns the index of the first of the ascending `ends` beyond each point; it ends an interval that is not empty.

    Rounding may put a point at or after the last end: it then counts as just before it.
    """
    last = torch.nextafter(ends[..., -1:], torch.zeros_like(ends[..., -1:]))
    return torch.searchsorted(ends, torch.minimum(points, last), right=True)
