"""TensorBoard: losses, values, speed, training returns and evaluations."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mrq.interface import Array
from mrq.training.episodes import Episode
from mrq.training.evaluation import Evaluation
from mrq.training.listeners.listener import Listener
from mrq.training.run_folder import TENSORBOARD, RunFolder

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoard(Listener):
    """Writes events to each agent's run folder."""

    def __init__(self, runs: Sequence[RunFolder]) -> None:
        self._runs = runs
        self._writers: dict[int, SummaryWriter] = {}

    def episodes_end(self, steps: int, episodes: Mapping[int, Sequence[Episode]]) -> None:
        for agent, ended in episodes.items():
            for episode in ended:
                self._record(agent, steps, {"training/episode_return": episode.total_reward})

    def metrics(self, steps: int, metrics: Mapping[int, Mapping[str, float]], steps_per_second: float) -> None:
        for agent, values in metrics.items():
            learning = {f"learning/{name}": value for name, value in values.items()}
            self._record(agent, steps, learning | {"speed/steps_per_second": steps_per_second})

    def evaluation(self, steps: int, evaluations: Mapping[int, Evaluation], seconds: Array) -> None:
        for agent, evaluation in evaluations.items():
            values = {"evaluation/return": evaluation.mean, "evaluation/length": evaluation.mean_length}
            self._record(agent, steps, values)

    def training_ends(self, steps: int) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _record(self, agent: int, steps: int, values: Mapping[str, float]) -> None:
        if agent not in self._writers:
            from torch.utils.tensorboard import SummaryWriter  # importing it takes seconds

            self._writers[agent] = SummaryWriter(str(self._runs[agent].path / TENSORBOARD), purge_step=steps)
        for name, value in values.items():
            self._writers[agent].add_scalar(name, value, steps)
