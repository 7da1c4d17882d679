"""TensorBoard: losses, values, speed, training returns and evaluations."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mrq.training.listeners.values import Values
from mrq.training.run_folder import TENSORBOARD, RunFolder

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoard(Values):
    """Writes events to each agent's run folder."""

    def __init__(self, runs: Sequence[RunFolder]) -> None:
        self._runs = runs
        self._writers: dict[int, SummaryWriter] = {}

    def record(self, agent: int, steps: int, values: Mapping[str, float]) -> None:
        if agent not in self._writers:
            from torch.utils.tensorboard import SummaryWriter  # importing it takes seconds

            self._writers[agent] = SummaryWriter(str(self._runs[agent].path / TENSORBOARD), purge_step=steps)
        for name, value in values.items():
            self._writers[agent].add_scalar(name, value, steps)

    def training_ends(self, steps: int) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()
