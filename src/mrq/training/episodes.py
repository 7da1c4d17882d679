"""Episodes: begins and steps the environments, counts, and brings environments back to where they were."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mrq.environments.environments import NO_FAULTS, Environments, Faults
from mrq.environments.history import FrameHistory
from mrq.interface import Array, Identity, Transitions
from mrq.randomness import environment_seed
from mrq.replay.buffer import Replay

Ask = Callable[[Array], tuple[Sequence[Array], Faults]]  # of the environments in a mask (agents,)


class Episode(NamedTuple):
    """An episode that ended in training."""

    total_reward: float
    length: int


class Episodes:
    """The current episode of every agent. What fails is returned, by agent, with a sentence each."""

    def __init__(
        self, identities: Sequence[Identity], environments: Environments, replay: Replay, history: FrameHistory
    ) -> None:
        self.identities, self._environments = identities, environments
        self._replay, self._history = replay, history
        self.begun = np.zeros(len(identities), int)
        self.over = np.ones(len(identities), bool)  # the next step begins an episode
        self.returns = np.zeros(len(identities))  # so far

    def begin(self, step: int) -> tuple[Array, dict[int, str]]:
        """Begins episodes where the last one is over; returns their first frames (agents, *frame_shape)."""
        identified = zip(self.identities, self.begun.tolist(), strict=True)
        seeds = [environment_seed(identity.seed, begun) for identity, begun in identified]

        def ask(which: Array) -> tuple[Sequence[Array], Faults]:
            frames, faults = self._environments.reset(which, seeds, step)
            return [frames], faults

        (frames,), failed = self._ask(ask, self.over, step)
        return frames, failed

    def began(self, which: Array) -> None:
        """Counts the episodes that began (agents,)."""
        self.begun[which] += 1
        self.returns[which] = 0
        self.over[:] = False

    def step(self, which: Array, actions: Array, step: int) -> tuple[Transitions, dict[int, str]]:
        """Steps the environments of the agents in `which` (agents,); zeros for the others."""

        def ask(which: Array) -> tuple[Sequence[Array], Faults]:
            transitions, faults = self._environments.step(which, actions, step)
            return transitions[1:], faults

        results, failed = self._ask(ask, which, step)
        return Transitions(actions, *results), failed

    def count(self, step: Transitions, active: Array) -> dict[int, Episode]:
        """Adds up rewards, and returns the episodes that this step ended, by agent."""
        self.returns += step.rewards
        self.over = (step.terminated | step.truncated) & active
        lengths = self._replay.episode_steps
        return {a: Episode(float(self.returns[a]), int(lengths[a])) for a in np.flatnonzero(self.over).tolist()}

    def bring_back(self, agent: int) -> tuple[bool, Faults]:
        """Replays an environment's episode up to here; says whether that led to the same observation."""
        actions = self._replay.episode_actions(agent)
        if actions is None:
            return False, NO_FAULTS
        seed = environment_seed(self.identities[agent].seed, int(self.begun[agent]) - 1)
        frame, faults = self._environments.replay_episode(agent, seed, actions)
        return frame is not None and np.array_equal(frame, self._history.frames[agent, -1]), faults

    def _ask(self, ask: Ask, which: Array, step: int) -> tuple[Sequence[Array], dict[int, str]]:
        """Asks the environments; where another one crashed their shared worker, brings them back and asks again."""
        results, faults = ask(which)
        failed = dict(faults.failed)
        while faults.restarted:
            agents = np.zeros(len(which), bool)
            agents[list(faults.restarted)] = True
            faults = NO_FAULTS
            for agent in np.flatnonzero(agents & ~self.over).tolist():
                is_back, more = self.bring_back(agent)
                faults = Faults(faults.failed | more.failed, faults.restarted | more.restarted)
                if not is_back and agent not in faults.failed:
                    faults.failed[agent] = (
                        f"the environment of {self.identities[agent].name} stopped at step {step:,} because another "
                        "one crashed their shared worker, and replaying its episode led to another observation."
                    )
            agents[[*faults.failed, *faults.restarted]] = False
            again, more = ask(agents & which)
            for result, repeated in zip(results, again, strict=True):
                result[agents] = repeated[agents]
            faults = Faults(faults.failed | more.failed, faults.restarted | more.restarted)
            failed |= faults.failed
        return results, failed
