"""Environments that are stepped one after another in this process."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from mrq.environments.checked import CheckedEnvironment
from mrq.environments.checks import Misbehaviour
from mrq.environments.environments import NO_FAULTS, Faults, failed_at, fault_sentence
from mrq.interface import Array, Spec, Transitions, common_spec

IDLE = -1  # no environment is being called
Result = TypeVar("Result")


class LocalEnvironments:
    """The `Environments` of this process."""

    begin_by_themselves = False

    def __init__(
        self,
        environments: Sequence[CheckedEnvironment],
        names: Sequence[str],
        at_work: Array | None = None,  # (1,), where to note which environment is being called
    ) -> None:
        self.environments, self.names = environments, names
        self.specs: Sequence[Spec] = [environment.spec for environment in environments]
        self.spec = common_spec(self.specs, names)
        self._at_work = np.full(1, IDLE) if at_work is None else at_work

    def reset(self, which: Array, seeds: Sequence[int], step: int) -> tuple[Array, Faults]:
        """Begins episodes where `which` (environments,) is true; returns first frames (environments, *frame_shape)."""
        frames, failed = self._zero_frames(), dict[int, str]()
        for place, frame in self._each(which, step, lambda place: self.environments[place].reset(seeds[place]), failed):
            frames[place, : len(frame)] = frame
        return frames, Faults(failed, frozenset())

    def step(self, which: Array, actions: Array, step: int) -> tuple[Transitions, Faults]:
        """Steps the environments where `which` is true."""
        frames, failed = self._zero_frames(), dict[int, str]()
        rewards = np.zeros(len(frames), np.float32)
        terminated, truncated = np.zeros((2, len(frames)), bool)
        for place, result in self._each(which, step, lambda place: self._step(place, actions[place]), failed):
            frame, rewards[place], terminated[place], truncated[place] = result
            frames[place, : len(frame)] = frame
        return Transitions(actions, rewards, terminated, truncated, frames), Faults(failed, frozenset())

    def replay_episode(self, environment: int, seed: int, actions: Array) -> tuple[Array | None, Faults]:
        """Replays an environment's episode; returns its last frame, or None if the episode ended early."""
        self._at_work[0] = environment
        try:
            frame = self.environments[environment].reset(seed)
            for action in actions:
                frame, _, terminated, truncated = self._step(environment, action)
                if terminated or truncated:
                    return None, NO_FAULTS
        except Misbehaviour:  # it has not failed: a new episode may well work
            return None, NO_FAULTS
        finally:
            self._at_work[0] = IDLE
        padded = np.zeros(self.spec.frame_shape, self.spec.frame_dtype)
        padded[: len(frame)] = frame
        return padded, NO_FAULTS

    def close(self) -> None:
        """Closes all environments."""
        for environment in self.environments:
            environment.close()

    def _step(self, place: int, action: Array) -> tuple[Array, float, bool, bool]:
        return self.environments[place].step(action[: self.specs[place].action_size])

    def _zero_frames(self) -> Array:
        return np.zeros((len(self.environments), *self.spec.frame_shape), self.spec.frame_dtype)

    def _each(
        self, which: Array, step: int, call: Callable[[int], Result], failed: dict[int, str]
    ) -> Iterator[tuple[int, Result]]:
        """Yields the results of `call`, by place, for those in `which`; adds those that fail to `failed`."""
        for place in np.flatnonzero(which).tolist():
            self._at_work[0] = place
            try:
                result = call(place)
            except Misbehaviour as misbehaviour:
                failed[place] = fault_sentence(self.names[place], failed_at(step), str(misbehaviour))
            else:
                yield place, result
        self._at_work[0] = IDLE
