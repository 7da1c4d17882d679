"""A stream of noise for P agents, drawn a block at a time and kept where the learner needs it."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from mrq.interface import Array
from mrq.randomness import Stream, generator


class NoiseBlocks:
    def __init__(
        self,
        seeds: Sequence[int],
        stream: Stream,
        size: int,  # steps or updates in a block
        draw: Callable[[np.random.Generator], dict[str, Array]],  # a block for one agent
        device: torch.device,
    ) -> None:
        self.seeds, self.stream, self.size, self.draw, self.device = seeds, stream, size, draw, device
        self._index = -1
        self._block: dict[str, Tensor] = {}

    def at(self, position: int, count: int) -> dict[str, Tensor]:
        """Noise (agents, count, …) of the steps or updates from `position` on, which lie in one block."""
        index, start = divmod(position, self.size)
        if index != self._index:
            agents = [self.draw(generator(seed, self.stream, index)) for seed in self.seeds]
            self._block = {
                name: torch.from_numpy(np.stack([agent[name] for agent in agents])).to(self.device)
                for name in agents[0]
            }
            self._index = index
        return {name: tensor[:, start : start + count] for name, tensor in self._block.items()}
