"""A continuous task seen as images, and small hyperparameters for it."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from mrq.algorithms.drqv2.hyperparameters import Hyperparameters

SMALL = Hyperparameters(
    random_steps=12, batch_size=4, feature_size=5, hidden_width=8, exploration_decay=40, replay_capacity=1_000
)


def column(place: float) -> np.ndarray:
    """Returns the image of a column at a place in [0, 1]."""
    image = np.zeros((84, 84), np.uint8)
    left = round(place * 76)
    image[:, left : left + 8] = 200
    return image


class MovingColumn(gym.Env[np.ndarray, np.ndarray]):
    """Shows grey 84x84 images of a bright column. The first action moves it; the reward is its place in [0, 1]."""

    def __init__(self, actions: int = 1, episode_steps: int = 7) -> None:
        self.observation_space = spaces.Box(0, 255, (84, 84), np.uint8)
        self.action_space = spaces.Box(-1, 1, (actions,), np.float32)
        self.episode_steps = episode_steps

    def _observation(self) -> np.ndarray:
        return column(self.place)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.place, self.step_count = float(self.np_random.uniform(0.3, 0.7)), 0
        return self._observation(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert self.action_space.contains(action)
        self.place = float(np.clip(self.place + 0.2 * action[0], 0, 1))
        self.step_count += 1
        return self._observation(), self.place, False, self.step_count >= self.episode_steps, {}
