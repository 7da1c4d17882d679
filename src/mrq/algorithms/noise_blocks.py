"""A stream of noise for P agents, drawn a block at a time, ahead of its use, and kept where the learner needs it."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from mrq.execution import widest_float
from mrq.interface import Array, Spec
from mrq.padding import stack_padded
from mrq.randomness import Stream, generator

Draw = Callable[[np.random.Generator, Spec], dict[str, Array]]  # a block for one agent


def for_each_copy(draw: Draw, size: int, copies: int) -> Draw:
    """Returns a draw for `size` steps of which each takes an action in every environment of an agent."""

    def drawn(generator: np.random.Generator, spec: Spec) -> dict[str, Array]:
        return {name: array.reshape(size, copies, *array.shape[1:]) for name, array in draw(generator, spec).items()}

    return drawn


class NoiseBlocks:
    """Noise of one stream for all agents, found by the position of a step or update."""

    def __init__(
        self,
        seeds: Sequence[int],
        specs: Sequence[Spec],  # agents may differ in size; what is drawn is padded with zeros
        stream: Stream,
        size: int,  # steps or updates in a block
        draw: Draw,
        device: torch.device,
        ahead: ThreadPoolExecutor,  # where the next block is drawn while this one is used
    ) -> None:
        self.seeds, self.specs, self.stream, self.size, self.draw = seeds, specs, stream, size, draw
        self.device = device
        self._ahead = ahead
        self._next: tuple[int, Future[dict[str, Tensor]]] | None = None
        self._index = -1
        self.host: dict[str, Tensor] = {}  # the current block
        self._block: dict[str, Tensor] = {}  # the same on the device, always at the same address
        self._cursor = torch.zeros(1, dtype=torch.long, device=device)

    def seek(self, position: int) -> int:
        """Makes `take` return the noise of the steps or updates from `position` on; returns the place in the block."""
        index, place = divmod(position, self.size)
        if index != self._index:
            self._load(index)
        self._cursor.fill_(place)
        return place

    def take(self, count: int) -> dict[str, Tensor]:
        """Returns noise (agents, count, …) of one block; this is device work alone, so that it can be captured."""
        places = self._cursor + torch.arange(count, device=self.device)
        return {name: tensor.index_select(1, places) for name, tensor in self._block.items()}

    def _load(self, index: int) -> None:
        if self._next is not None and self._next[0] == index:
            self.host = self._next[1].result()
        else:
            self.host = self._draw(index)
        self._index = index
        self._next = (index + 1, self._ahead.submit(self._draw, index + 1))
        if not self._block:
            self._block = {name: torch.empty_like(tensor, device=self.device) for name, tensor in self.host.items()}
        for name, tensor in self.host.items():
            self._block[name].copy_(tensor, non_blocking=True)

    def _draw(self, index: int) -> dict[str, Tensor]:
        pairs = zip(self.seeds, self.specs, strict=True)
        agents = [self.draw(generator(seed, self.stream, index), spec) for seed, spec in pairs]
        return {name: self._stacked([agent[name] for agent in agents]) for name in agents[0]}

    def _stacked(self, arrays: Sequence[Array]) -> Tensor:
        """Stacks in pinned memory, so that copying to a GPU does not hold the host up."""
        tensors = [torch.from_numpy(array) for array in arrays]
        if tensors[0].dtype == torch.float64:
            tensors = [tensor.to(widest_float(self.device)) for tensor in tensors]
        return stack_padded(tensors, pin_memory=self.device.type == "cuda")
