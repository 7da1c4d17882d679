"""Any environment that MR.Q takes, as a plain one: a vector or a stack of images, actions in [-1, 1] or a number."""

from typing import Any

import gymnasium as gym
import numpy as np

from mrq.environments.guarded import Guarded
from mrq.environments.making import make_environment
from mrq.interface import Array


class PlainEnvironment(gym.Env[Array, Any]):
    def __init__(self, task: str) -> None:
        self._guarded = Guarded(make_environment(task))
        self.spec_of_task = spec = self._guarded.border.spec
        low, high = (0, 255) if spec.image else (-np.inf, np.inf)
        self.observation_space = gym.spaces.Box(low, high, spec.state_shape, spec.frame_dtype)
        self.action_space = (
            gym.spaces.Discrete(spec.action_size) if spec.discrete else gym.spaces.Box(-1, 1, (spec.action_size,))
        )
        self._history = np.zeros((spec.history, *spec.frame_shape), spec.frame_dtype)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self._history[:] = self._guarded.reset(int(self.np_random.integers(2**31)))
        return self._state(), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        spec = self.spec_of_task
        frame, reward, terminated, truncated = self._guarded.step(
            np.eye(spec.action_size)[action] if spec.discrete else np.asarray(action)
        )
        self._history = np.concatenate([self._history[1:], frame[None]])
        return self._state(), reward, terminated, truncated, {}

    def close(self) -> None:
        self._guarded.close()

    def _state(self) -> Array:
        return self._history.reshape(self.spec_of_task.state_shape).copy()
