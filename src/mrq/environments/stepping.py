"""P environments stepped together in this process; where one fails, the others go on.

They may differ in size: frames are padded with zeros to what holds them all, and each gets its own part of an action.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from mrq.environments.guarded import Guarded
from mrq.environments.spaces import Fault
from mrq.errors import MRQError
from mrq.interface import Array, Transitions, common_spec

NOBODY = -1
Result = TypeVar("Result")


class EnvironmentFault(MRQError):
    """An environment broke off; what was learned until then is sound."""


class Environments:
    """One environment an agent. `step` is the agents' step number, for messages."""

    def __init__(
        self,
        environments: Sequence[Guarded],
        names: Sequence[str],
        at_work: Array | None = None,  # (1,), to say in which agent's environment is being called
    ) -> None:
        self.environments, self.names = environments, names
        self.specs = [environment.border.spec for environment in environments]
        self.spec = common_spec(self.specs, names)
        self.failed: dict[int, str] = {}  # what went wrong, by agent; it is not called again
        self.restarted: set[int] = set()  # whose environments were made anew; never in this process
        self.at_work = np.full(1, NOBODY) if at_work is None else at_work

    def reset(self, which: Array, seeds: Sequence[int], step: int) -> Array:
        """First frames (agents, *frame_shape) for the agents where `which` is true; zeros for the others."""
        frames = self._frames()
        for agent, frame in self._each(which, step, lambda agent: self.environments[agent].reset(seeds[agent])):
            frames[agent, : len(frame)] = frame
        return frames

    def step(self, which: Array, actions: Array, step: int) -> Transitions:
        """Steps the agents where `which` is true; zeros for the others."""
        frames = self._frames()
        rewards = np.zeros(len(frames), np.float32)
        terminated, truncated = np.zeros((2, len(frames)), bool)
        for agent, result in self._each(which, step, lambda agent: self._step(agent, actions[agent])):
            frame, rewards[agent], terminated[agent], truncated[agent] = result
            frames[agent, : len(frame)] = frame
        return Transitions(actions, rewards, terminated, truncated, frames)

    def replay_episode(self, agent: int, seed: int, actions: Array) -> Array | None:
        """Brings an environment back by playing its episode again; its last frame, or None where it ended early."""
        if agent in self.failed:
            return None
        self.at_work[0] = agent
        try:
            frame = self.environments[agent].reset(seed)
            for action in actions:
                frame, _, terminated, truncated = self._step(agent, action)
                if terminated or truncated:
                    return None
        except Fault:  # not held against it: a new episode may well go
            return None
        finally:
            self.at_work[0] = NOBODY
        padded = np.zeros(self.spec.frame_shape, self.spec.frame_dtype)
        padded[: len(frame)] = frame
        return padded

    def close(self) -> None:
        for environment in self.environments:
            environment.close()

    def _step(self, agent: int, action: Array) -> tuple[Array, float, bool, bool]:
        return self.environments[agent].step(action[: self.specs[agent].action_size])

    def _frames(self) -> Array:
        return np.zeros((len(self.environments), *self.spec.frame_shape), self.spec.frame_dtype)

    def _each(self, which: Array, step: int, call: Callable[[int], Result]) -> Iterator[tuple[int, Result]]:
        """What `call` gave for each agent that is asked for and does not fail."""
        for agent in np.flatnonzero(which).tolist():
            if agent in self.failed:
                continue
            self.at_work[0] = agent
            try:
                result = call(agent)
            except Fault as fault:
                self.failed[agent] = fault_sentence(self.names[agent], failed_at(step), str(fault))
            else:
                yield agent, result
        self.at_work[0] = NOBODY


def fault_sentence(name: str, what: str, why: str) -> str:
    return f"the environment of {name} {what}: {why}."


def failed_at(step: int) -> str:
    return f"failed at step {step:,}"
