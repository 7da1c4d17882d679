"""best/: the policy of the best evaluation so far, so that what an agent forgets later is not lost."""

from collections.abc import Mapping, Sequence

from mrq.interface import Array
from mrq.training.checkpoint import AgentState
from mrq.training.evaluation import Evaluation
from mrq.training.listeners.listener import Listener, Training
from mrq.training.run_folder import RunFolder


class BestAgent(Listener):
    """Keeps an agent's policy in its run folder whenever its evaluation is better than all before."""

    def __init__(self, runs: Sequence[RunFolder]) -> None:
        self._runs = runs

    def training_begins(self, training: Training) -> None:
        self._learner = training.learner
        self._best = [max(returns, default=float("-inf")) for returns in training.returns]

    def evaluation(self, steps: int, evaluations: Mapping[int, Evaluation], seconds: Array) -> None:
        for agent, evaluation in evaluations.items():
            if evaluation.mean > self._best[agent]:
                self._best[agent] = evaluation.mean
                tensors, counters = self._learner.policy_of(agent)
                self._runs[agent].keep_best(AgentState(tensors, {}, {"steps": steps, "learner": counters}))
