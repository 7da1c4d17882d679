"""A task that hides a part of its state, which `--history` gives back; benchmarks/learning.md shows what is learned."""

from typing import Any

import gymnasium as gym
from gymnasium import spaces
from gymnasium.wrappers import TransformObservation


def pendulum() -> gym.Env[Any, Any]:
    """Returns Pendulum-v1 without the velocity in its observations."""
    environment = gym.make("Pendulum-v1")
    return TransformObservation(environment, lambda observation: observation[:2], spaces.Box(-1, 1, (2,)))
