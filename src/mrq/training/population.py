"""P agents in training: their parts, which are built elsewhere, and where they stand."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from mrq.algorithms.algorithm import Learner
from mrq.bounds import MOST_STEPS
from mrq.environments.environments import EnvironmentFault, Environments
from mrq.errors import MRQError
from mrq.interface import Array, Identity
from mrq.replay.allocation import slots_needed
from mrq.replay.buffer import Replay
from mrq.restoring import is_count, joined, refuse_unless, separated
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
        self.steps = 0  # environment steps taken, by each agent in all its environments together
        self.evaluated_at = -1  # the step of the last evaluation
        self.seconds = np.zeros(len(identities))  # of training so far

    @property
    def names(self) -> list[str]:
        return [identity.name for identity in self.identities]

    @property
    def copies(self) -> int:
        """How many environments each agent has: the steps it takes at once."""
        return self.replay.copies

    @property
    def stepping(self) -> Array:
        """In which environments (environments,) agents still train."""
        return np.repeat(self.active, self.copies)

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
        return self.learns and self._reaches_period(self._learning_steps - 1)

    @property
    def ends_period(self) -> bool:
        """Whether a period of the learner ends with this step's updates."""
        return self.learns and self._reaches_period(self._learning_steps)

    @property
    def _learning_steps(self) -> int:
        return self.steps - int(self.hyperparameters.random_steps)

    def _reaches_period(self, steps: int) -> bool:
        """Says whether a multiple of the learner's period is among the last `copies` steps up to this one."""
        return steps // self.learner.period > (steps - self.copies) // self.learner.period

    def expect(self, total_steps: int) -> None:
        """Makes room for what training up to `total_steps` will bring."""
        if self.replay.make_room(slots_needed(total_steps, self.hyperparameters.replay, self.copies)):
            for work in self.works:
                work.renew()
        self.learner.expect(total_steps)

    def drop(self, agent: int, fault: MRQError) -> None:
        """Stops training one agent; its place is still computed, for nothing."""
        if self.active[agent]:
            self.active[agent] = False
            self.on_fault(agent, fault)  # it may save the agent, and whether its episodes are over
            self.episodes.abandon(self._environments_of(agent))

    def drop_failed(self, failed: Mapping[int, str]) -> None:
        """Drops the agents whose environments failed."""
        for environment, sentence in failed.items():
            self.drop(environment // self.copies, EnvironmentFault(sentence))

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

    def move_to(self, environments: Environments) -> None:
        """Trains in other environments with the same spaces from now on."""
        self.environments = environments
        self.episodes.move_to(environments)
        self.begin_anew(slice(None))

    def begin_anew(self, environments: slice) -> None:
        """Ends current episodes as if they had been truncated here."""
        self.acting.forget(environments)
        self.episodes.over[environments] = True

    def state_of(self, agent: int) -> AgentState:
        """Returns all that one agent needs to continue; refuses networks with NaN."""
        tensors, learner_counters = self.learner.state_of(agent)
        if not all(tensor.isfinite().all() for tensor in tensors.values()):
            raise LossFault(f"{self.names[agent]}: the networks hold NaN at step {self.steps:,}; nothing was saved.")
        arrays, replay_counters = self.replay.state_of(agent)
        own, episodes = self._environments_of(agent), self.episodes
        over = (episodes.over | episodes.waiting)[own]
        size = self.learner.specs[agent].action_size
        next_actions = [
            None if is_over else self.acting.next_action(own.start + copy, size)
            for copy, is_over in enumerate(over.tolist())
        ]
        counters = {
            "steps": self.steps,
            "evaluated_at": self.evaluated_at,
            "seconds": float(self.seconds[agent]),
            "episodes": joined(episodes.begun[own].tolist()),
            "over": joined(over.tolist()),
            "episode_return": joined(episodes.returns[own].tolist()),
            "next_action": joined(next_actions),
            "replay": replay_counters,
            "learner": learner_counters,
        }
        return AgentState(tensors, arrays, counters)

    def load_state_of(self, agent: int, state: AgentState) -> str | None:
        """Restores what `state_of` returned; returns a sentence where environments could not be brought back."""
        counters = state.counters
        self._check(agent, counters)
        self.expect(counters["steps"])
        # Until version 0.2, MR.Q's counters stood beside the others.
        self.learner.load_state_of(agent, state.tensors, counters.get("learner", counters))
        self.replay.load_state_of(agent, state.arrays, counters["replay"])
        self.steps, self.evaluated_at = counters["steps"], counters["evaluated_at"]
        self.seconds[agent] = counters["seconds"]
        own, episodes = self._environments_of(agent), self.episodes
        begun, over, returns, next_actions = self._episode_counters(counters)
        episodes.begun[own], episodes.over[own], episodes.returns[own] = begun, over, returns
        seen = self.replay.present_states(agent)
        sentences = []
        for copy, environment in enumerate(range(own.start, own.stop)):
            self.acting.restore(environment, seen[copy], next_actions[copy])
            if over[copy]:
                continue
            is_back, faults = episodes.bring_back(environment)
            if not is_back:
                self.begin_anew(slice(environment, environment + 1))
                sentences.append(next(iter(faults.failed.values()), None))
        if not sentences:
            return None
        which = "" if self.copies == 1 else f" in {len(sentences):,} of {self.copies:,} environments"
        return sentences[0] or (
            f"{self.names[agent]}: the episode could not be brought back to where it was{which}; a new one begins."
        )

    def _environments_of(self, agent: int) -> slice:
        return slice(agent * self.copies, (agent + 1) * self.copies)

    def _episode_counters(self, counters: Mapping[str, Any]) -> tuple[list[Any], ...]:
        """Returns what a checkpoint knows of each of an agent's episodes."""
        names = ("episodes", "over", "episode_return", "next_action")
        return tuple(separated(counters[name], self.copies) for name in names)

    def _check(self, agent: int, counters: Mapping[str, Any]) -> None:
        """Refuses counters that no training can have reached."""
        steps, size = counters["steps"], self.learner.specs[agent].action_size
        refuse_unless(is_count(steps, 0, MOST_STEPS) and is_count(counters["evaluated_at"], -1, steps), "the step")
        refuse_unless(0 <= counters["seconds"] < float("inf"), "the time")
        for begun, over, total, action in zip(*self._episode_counters(counters), strict=True):
            refuse_unless(is_count(begun) and type(over) is bool, "the episode")
            refuse_unless(bool(np.isfinite(total)), "the return")
            right = action is None or (len(action) == size and bool(np.isfinite(action).all()))
            refuse_unless(right, "the next action")


def _raise(agent: int, fault: MRQError) -> None:
    raise fault
