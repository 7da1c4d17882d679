"""Episodes: begins and steps the environments, counts, and brings environments back to where they were."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mrq.environments.environments import NO_FAULTS, Environments, Faults
from mrq.environments.history import FrameHistory
from mrq.interface import Array, Identity, Transitions
from mrq.randomness import environment_seed
from mrq.replay.buffer import Replay

Ask = Callable[[Array], tuple[Sequence[Array], Faults]]  # of the environments in a mask (environments,)


class Episode(NamedTuple):
    """An episode that ended in training."""

    total_reward: float
    length: int


class Episodes:
    """The current episode in every environment. What fails is returned, by environment, with a sentence each."""

    def __init__(
        self, identities: Sequence[Identity], environments: Environments, replay: Replay, history: FrameHistory
    ) -> None:
        self._identities, self._environments = identities, environments
        self._replay, self._history, self._copies = replay, history, replay.copies
        count = len(identities) * self._copies
        self.begun = np.zeros(count, int)
        self.over = np.ones(count, bool)  # an episode must begin before the next step
        self.waiting = np.zeros(count, bool)  # the next step only begins an episode
        self.returns = np.zeros(count)  # so far

    def move_to(self, environments: Environments) -> None:
        """Plays in other environments from now on; their first episodes are yet to begin."""
        self._environments = environments

    def begin(self, step: int) -> tuple[Array, dict[int, str]]:
        """Begins episodes where the last one is over; returns their first frames (environments, *frame_shape)."""
        seeds = [self._seed(environment, begun) for environment, begun in enumerate(self.begun.tolist())]

        def ask(which: Array) -> tuple[Sequence[Array], Faults]:
            frames, faults = self._environments.reset(which, seeds, step)
            return [frames], faults

        (frames,), failed = self._ask(ask, self.over, step)
        return frames, failed

    def began(self, which: Array) -> None:
        """Counts the episodes that began, in the environments `which` (environments,)."""
        self.begun[which] += 1
        self.returns[which] = 0
        self.over[which] = self.waiting[which] = False

    def abandon(self, environments: slice) -> None:
        """Begins no more episodes in these environments."""
        self.over[environments] = self.waiting[environments] = False

    def step(self, which: Array, actions: Array, step: int) -> tuple[Transitions, dict[int, str]]:
        """Steps the environments in `which` (environments,); zeros for the others."""

        def ask(which: Array) -> tuple[Sequence[Array], Faults]:
            transitions, faults = self._environments.step(which, actions, step)
            return (transitions.rewards, transitions.terminated, transitions.truncated, transitions.next_frames), faults

        began = self.waiting & which if self.waiting.any() else None
        (rewards, terminated, truncated, frames), failed = self._ask(ask, which, step)
        return Transitions(actions, rewards, terminated, truncated, frames, began), failed

    def count(self, step: Transitions, active: Array) -> dict[int, list[Episode]]:
        """Adds up rewards, and returns the episodes that this step ended, by agent; `active` are environments."""
        self.returns += step.rewards
        ended = (step.terminated | step.truncated) & active
        if self._environments.begin_by_themselves:
            self.waiting = ended
        else:
            self.over = ended.copy()
        episodes: dict[int, list[Episode]] = {}
        for environment in np.flatnonzero(ended).tolist():
            episode = Episode(float(self.returns[environment]), int(self._replay.episode_steps[environment]))
            episodes.setdefault(environment // self._copies, []).append(episode)
        return episodes

    def bring_back(self, environment: int) -> tuple[bool, Faults]:
        """Replays an environment's episode up to here; says whether that led to the same observation."""
        actions = self._replay.episode_actions(environment)
        if actions is None:
            return False, NO_FAULTS
        seed = self._seed(environment, int(self.begun[environment]) - 1)
        frame, faults = self._environments.replay_episode(environment, seed, actions)
        return frame is not None and np.array_equal(frame, self._history.frames[environment, -1]), faults

    def _seed(self, environment: int, episode: int) -> int:
        agent, copy = divmod(environment, self._copies)
        return environment_seed(self._identities[agent].seed, episode, copy)

    def _ask(self, ask: Ask, which: Array, step: int) -> tuple[Sequence[Array], dict[int, str]]:
        """Asks the environments; where another one crashed their shared worker, brings them back and asks again."""
        results, faults = ask(which)
        failed = dict(faults.failed)
        while faults.restarted:
            restarted = np.zeros(len(which), bool)
            restarted[list(faults.restarted)] = True
            faults = NO_FAULTS
            for environment in np.flatnonzero(restarted & ~self.over).tolist():
                is_back, more = self.bring_back(environment)
                faults = Faults(faults.failed | more.failed, faults.restarted | more.restarted)
                if not is_back and environment not in faults.failed:
                    faults.failed[environment] = (
                        f"the environment of {self._environments.names[environment]} stopped at step {step:,} because "
                        "another one crashed their shared worker, and replaying its episode led to another observation."
                    )
            restarted[[*faults.failed, *faults.restarted]] = False
            again, more = ask(restarted & which)
            for result, repeated in zip(results, again, strict=True):
                result[restarted] = repeated[restarted]
            faults = Faults(faults.failed | more.failed, faults.restarted | more.restarted)
            failed |= faults.failed
        return results, failed
