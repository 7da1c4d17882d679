"""P environments stepped together: the agents' own, each guarded against what an environment must not do."""

import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from mrq.environments.making import Environment
from mrq.environments.spaces import Border, Fault
from mrq.errors import MRQError
from mrq.interface import Array, Transitions


class EnvironmentFault(MRQError):
    """An environment broke off; what was learned until then is sound."""


class Guarded:
    """One environment in the network's terms. Whatever it does wrong becomes a Fault of one sentence."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        if not all(hasattr(environment, name) for name in ("observation_space", "action_space")):
            raise MRQError(f"{environment} has no observation_space or no action_space; Gymnasium's API asks for both.")
        self.border = Border(environment.observation_space, environment.action_space)

    def reset(self, seed: int) -> Array:
        result = self._call(lambda: self.environment.reset(seed=seed))
        if not isinstance(result, tuple) or len(result) != 2:
            raise Fault("reset() did not return the two values (observation, info) of Gymnasium's API")
        return self.border.frame(result[0])

    def step(self, action: Array) -> tuple[Array, float, bool, bool]:
        result = self._call(lambda: self.environment.step(self.border.action(action)))
        if not isinstance(result, tuple) or len(result) != 5:
            raise Fault(
                "step() did not return the five values (observation, reward, terminated, truncated, info) "
                "of Gymnasium's API"
            )
        observation, reward, terminated, truncated, _ = result
        if not all(isinstance(flag, bool | np.bool_) for flag in (terminated, truncated)):
            raise Fault(f"terminated is {terminated!r} and truncated {truncated!r} where booleans were expected")
        number = np.asarray(reward)
        if number.ndim or number.dtype.kind not in "buif":
            raise Fault(f"the reward is {reward!r} where a single number was expected")
        with np.errstate(over="ignore"):
            number = number.astype(np.float32)
        if not np.isfinite(number):
            raise Fault(f"the reward is {reward!r}, which is no finite float32")
        return self.border.frame(observation), float(number), bool(terminated), bool(truncated)

    def _call(self, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except (Exception, SystemExit) as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            what = " ".join(f"{type(error).__name__}: {error}".split())
            raise Fault(f"it raised {what} ({Path(place.filename).name}, line {place.lineno})") from error


class Environments:
    """One environment an agent. `step` is the agents' step number, for messages."""

    def __init__(self, environments: Sequence[Guarded], names: Sequence[str]) -> None:
        self.environments, self.names = environments, names
        self.spec = environments[0].border.spec
        self.dtype = np.uint8 if self.spec.image else np.float32

    def reset(self, agents: Array, seeds: Sequence[int], step: int) -> Array:
        """First frames (agents, *frame_shape) for the agents where `agents` is true; zeros for the others."""
        frames = self._frames()
        for agent in np.flatnonzero(agents).tolist():
            frames[agent] = self._guarded(agent, step, self.environments[agent].reset, seeds[agent])
        return frames

    def step(self, agents: Array, actions: Array, step: int) -> Transitions:
        """Steps the agents where `agents` is true; zeros for the others."""
        frames = self._frames()
        rewards = np.zeros(len(frames), np.float32)
        terminated, truncated = np.zeros((2, len(frames)), bool)
        for agent in np.flatnonzero(agents).tolist():
            frames[agent], rewards[agent], terminated[agent], truncated[agent] = self._guarded(
                agent, step, self.environments[agent].step, actions[agent]
            )
        return Transitions(actions, rewards, terminated, truncated, frames)

    def replay_episode(self, agent: int, seed: int, actions: Array) -> Array | None:
        """Brings an environment back by playing its episode again; its last frame, or None where it ended early."""
        environment = self.environments[agent]
        try:
            frame = environment.reset(seed)
            for action in actions:
                frame, _, terminated, truncated = environment.step(action)
                if terminated or truncated:
                    return None
        except Fault:
            return None
        return frame

    def close(self) -> None:
        for environment in self.environments:
            with suppress(Exception):  # nothing is lost by it any more
                environment.environment.close()

    def _frames(self) -> Array:
        return np.zeros((len(self.environments), *self.spec.frame_shape), self.dtype)

    def _guarded(self, agent: int, step: int, function: Callable[[Any], Any], argument: Any) -> Any:
        try:
            return function(argument)
        except Fault as fault:
            raise EnvironmentFault(
                f"the environment of {self.names[agent]} failed at step {step:,}: {fault}."
            ) from fault
