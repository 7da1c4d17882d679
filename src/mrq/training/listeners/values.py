"""What happens in a training as named values, for those who draw them against steps."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from mrq.interface import Array
from mrq.training.episodes import Episode
from mrq.training.evaluation import Evaluation
from mrq.training.listeners.listener import Listener


class Values(Listener):
    """Turns losses, speed, training returns and evaluations into values; their names are the same everywhere."""

    @abstractmethod
    def record(self, agent: int, steps: int, values: Mapping[str, float]) -> None:
        """Records an agent's values of one step; a value may come again, for a second episode of that step."""

    def episodes_end(self, steps: int, episodes: Mapping[int, Sequence[Episode]]) -> None:
        for agent, ended in episodes.items():
            for episode in ended:
                self.record(agent, steps, {"training/episode_return": episode.total_reward})

    def metrics(self, steps: int, metrics: Mapping[int, Mapping[str, float]], steps_per_second: float) -> None:
        for agent, values in metrics.items():
            learning = {f"learning/{name}": value for name, value in values.items()}
            self.record(agent, steps, learning | {"speed/steps_per_second": steps_per_second})

    def evaluation(self, steps: int, evaluations: Mapping[int, Evaluation], seconds: Array) -> None:
        for agent, evaluation in evaluations.items():
            values = {"evaluation/return": evaluation.mean, "evaluation/length": evaluation.mean_length}
            self.record(agent, steps, values)
