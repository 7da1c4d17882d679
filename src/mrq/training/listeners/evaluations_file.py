"""evaluations.csv: one row per evaluation."""

from collections.abc import Mapping, Sequence

from mrq.interface import Array
from mrq.training.evaluation import Evaluation
from mrq.training.evaluations_table import COLUMNS
from mrq.training.listeners.listener import Listener
from mrq.training.run_folder import RunFolder


class EvaluationsFile(Listener):
    """Appends evaluations to the file in each agent's run folder."""

    def __init__(self, runs: Sequence[RunFolder]) -> None:
        self._runs = runs

    def evaluation(self, steps: int, evaluations: Mapping[int, Evaluation], seconds: Array) -> None:
        for agent, evaluation in evaluations.items():
            run = self._runs[agent]
            numbers = [f"{number:.8g}" for number in (evaluation.mean, evaluation.std, evaluation.mean_length)]
            cells = (run.task, run.seed, steps, *numbers, len(evaluation.returns), f"{seconds[agent]:.1f}")
            run.record(dict(zip(COLUMNS, map(str, cells), strict=True)))
