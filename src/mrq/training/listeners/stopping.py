"""Stopping early: at a return, or when nothing improves. Earlier evaluations of a run folder count too."""

from collections.abc import Mapping, Sequence

from mrq.errors import MRQError
from mrq.interface import Array
from mrq.training.evaluation import Evaluation
from mrq.training.listeners.listener import Listener, Training


class StopAtReturn(Listener):
    """Stops when every agent has had an evaluation with this return or more."""

    needs_evaluations = True

    def __init__(self, target: float) -> None:
        self.target = target

    def __str__(self) -> str:
        return f"the return of {self.target:g} is reached"

    def training_begins(self, training: Training) -> bool:
        self._best = {agent: max(returns, default=float("-inf")) for agent, returns in enumerate(training.returns)}
        return self._continues()

    def evaluation(self, steps: int, evaluations: Mapping[int, Evaluation], seconds: Array) -> bool:
        for agent, evaluation in evaluations.items():
            self._best[agent] = max(self._best[agent], evaluation.mean)
        return self._continues()

    def agent_fails(self, agent: int, fault: MRQError) -> None:
        del self._best[agent]

    def _continues(self) -> bool:
        return any(best < self.target for best in self._best.values())


class StopWithoutImprovement(Listener):
    """Stops when no agent has improved its best return for so many evaluations."""

    needs_evaluations = True

    def __init__(self, patience: int) -> None:
        self.patience = patience

    def __str__(self) -> str:
        return f"the best return has not improved for {self.patience:,} evaluations"

    def training_begins(self, training: Training) -> bool:
        self._returns = {agent: list(returns) for agent, returns in enumerate(training.returns)}
        return self._continues()

    def evaluation(self, steps: int, evaluations: Mapping[int, Evaluation], seconds: Array) -> bool:
        for agent, evaluation in evaluations.items():
            self._returns[agent].append(evaluation.mean)
        return self._continues()

    def agent_fails(self, agent: int, fault: MRQError) -> None:
        del self._returns[agent]

    def _continues(self) -> bool:
        return any(_since_best(returns) < self.patience for returns in self._returns.values())


def _since_best(returns: Sequence[float]) -> int:
    """Returns how many evaluations have passed since the first one with the best return."""
    return len(returns) - 1 - returns.index(max(returns)) if returns else 0
