"""P agents in training: their parts, which are built elsewhere, and where they stand."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from mrq.algorithms.algorithm import Learner
from mrq.bounds import MOST_STEPS
from mrq.environments.environments import EnvironmentFault, Environments
from mrq.errors import MRQError
from mrq.interface import Identity
from mrq.replay.allocation import slots_needed
from mrq.replay.buffer import Replay
from mrq.restoring import is_count, refuse_unless
from mrq.training.acting import Acting
from mrq.training.checkpoint import AgentState
from mrq.training.episodes import Episodes


class LossFault(MRQError):
    """A loss became NaN or infinite; the last checkpoint is still sound."""


class Population:
    """Every agent takes a step whenever one does. Agent i does what its seed does alone."""

    def __init__(
        self,
        identities: Sequence[Identity],
        hyperparameters: Any,
        environments: Environments,
        replay: Replay,
        learner: Learner,
        acting: Acting,
        device: torch.device,
        overlap: bool,
    ) -> None:
        self.identities, self.hyperparameters, self.environments = identities, hyperparameters, environments
        self.replay, self.learner, self.acting = replay, learner, acting
        self.episodes = Episodes(identities, environments, replay, acting.history)
        self.device, self.overlap = device, overlap
        self.works = (*replay.works, *learner.works)
        self.on_fault: Callable[[int, MRQError], None] = _raise  # is told of an agent that cannot continue
        self.active = np.ones(len(identities), bool)
        self.steps = 0  # environment steps taken, by each agent
        self.evaluated_at = -1  # the step of the last evaluation
        self.seconds = np.zeros(len(identities))  # of training so far

    @property
    def names(self) -> list[str]:
        return [identity.name for identity in self.identities]

    @property
    def compiled(self) -> bool:
        """Whether any of its work is compiled."""
        return any(function.compiled for work in self.works for function in work.functions)

    @property
    def learns(self) -> bool:
        """Whether its random steps are over."""
        return self._learning_steps > 0

    @property
    def begins_period(self) -> bool:
        """Whether a period of the learner begins with this step's updates."""
        return self.learns and self._learning_steps % self.learner.period == 1 % self.learner.period

    @property
    def ends_period(self) -> bool:
        """Whether a period of the learner ends with this step's updates."""
        return self.learns and self._learning_steps % self.learner.period == 0

    @property
    def _learning_steps(self) -> int:
        return self.steps - int(self.hyperparameters.random_steps)

    def expect(self, total_steps: int) -> None:
        """Makes room for what training up to `total_steps` will bring."""
        if self.replay.make_room(slots_needed(total_steps, self.hyperparameters.replay)):
            for work in self.works:
                work.renew()
        self.learner.expect(total_steps)

    def drop(self, agent: int, fault: MRQError) -> None:
        """Stops training one agent; its place is still computed, for nothing."""
        if self.active[agent]:
            self.active[agent] = False
            self.on_fault(agent, fault)  # it may save the agent, and whether its episode is over
            self.episodes.over[agent] = False

    def drop_failed(self, failed: Mapping[int, str]) -> None:
        """Drops the agents whose environments failed."""
        for agent, sentence in failed.items():
            self.drop(agent, EnvironmentFault(sentence))

    def drop_diverged(self) -> None:
        """Drops the agents with a loss that is NaN or infinite. Looking at losses waits for a GPU."""
        metrics = self.learner.metrics
        if not metrics:
            return
        values = torch.stack(list(metrics.values())).cpu().numpy()  # (metrics, agents)
        for agent in np.flatnonzero(self.active & ~np.isfinite(values).all(0)).tolist():
            name, value = next((n, v) for n, v in zip(metrics, values[:, agent], strict=True) if not np.isfinite(v))
            sentence = (
                f"{self.names[agent]}: the {name.replace('_', ' ')} became {value} at step {self.steps:,}; nothing was "
                "saved after that. Look for extreme rewards or observations, or unusual hyperparameters."
            )
            self.drop(agent, LossFault(sentence))

    def drop_without_data(self) -> None:
        """Drops the agents that have nothing to learn from, since all their episodes were too short."""
        for agent in np.flatnonzero(self.active & ~self.replay.can_sample()).tolist():
            sentence = (
                f"{self.names[agent]}: there is nothing to learn from after {self.steps:,} steps: every episode was "
                f"truncated before its {self.replay.horizon}th step; give it a longer time limit."
            )
            self.drop(agent, MRQError(sentence))

    def begin_anew(self, agent: int) -> None:
        """Ends the current episode as if it had been truncated here."""
        self.acting.forget(agent)
        self.episodes.over[agent] = True

    def state_of(self, agent: int) -> AgentState:
        """Returns all that one agent needs to continue; refuses networks with NaN."""
        next_action = self.acting.state_of(agent, self.environments.specs[agent].action_size)
        tensors, learner_counters = self.learner.state_of(agent)
        if not all(tensor.isfinite().all() for tensor in tensors.values()):
            raise LossFault(f"{self.names[agent]}: the networks hold NaN at step {self.steps:,}; nothing was saved.")
        arrays, replay_counters = self.replay.state_of(agent)
        counters = {
            "steps": self.steps,
            "evaluated_at": self.evaluated_at,
            "seconds": float(self.seconds[agent]),
            "episodes": int(self.episodes.begun[agent]),
            "over": bool(self.episodes.over[agent]),
            "episode_return": float(self.episodes.returns[agent]),
            "next_action": next_action,
            "replay": replay_counters,
            "learner": learner_counters,
        }
        return AgentState(tensors, arrays, counters)

    def load_state_of(self, agent: int, state: AgentState) -> str | None:
        """Restores what `state_of` returned; returns a sentence where the environment could not be brought back."""
        counters = state.counters
        self._check(agent, counters)
        self.expect(counters["steps"])
        # Until version 0.2, MR.Q's counters stood beside the others.
        self.learner.load_state_of(agent, state.tensors, counters.get("learner", counters))
        self.replay.load_state_of(agent, state.arrays, counters["replay"])
        self.steps, self.evaluated_at = counters["steps"], counters["evaluated_at"]
        self.seconds[agent] = counters["seconds"]
        self.episodes.begun[agent] = counters["episodes"]
        self.episodes.over[agent] = counters["over"]
        self.episodes.returns[agent] = counters["episode_return"]
        self.acting.load_state_of(agent, self.replay.present_state(agent), counters["next_action"])
        if self.episodes.over[agent]:
            return None
        is_back, faults = self.episodes.bring_back(agent)
        if is_back:
            return None
        self.begin_anew(agent)
        return next(iter(faults.failed.values()), None) or (
            f"{self.names[agent]}: the episode could not be brought back to where it was; a new one begins."
        )

    def _check(self, agent: int, counters: Mapping[str, Any]) -> None:
        """Refuses counters that no training can have reached."""
        steps, action = counters["steps"], counters["next_action"]
        refuse_unless(is_count(steps, 0, MOST_STEPS) and is_count(counters["evaluated_at"], -1, steps), "the step")
        refuse_unless(is_count(counters["episodes"]) and type(counters["over"]) is bool, "the episode")
        refuse_unless(0 <= counters["seconds"] < float("inf"), "the time")
        refuse_unless(bool(np.isfinite(counters["episode_return"])), "the return")
        size = self.environments.specs[agent].action_size
        right = action is None or (len(action) == size and bool(np.isfinite(action).all()))
        refuse_unless(right, "the next action")


def _raise(agent: int, fault: MRQError) -> None:
    raise fault
