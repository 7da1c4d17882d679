"""Randomness as data: every random number that an agent's steps and updates use, drawn from a given generator.

Each function draws for `count` actions or updates at once; the leading axis counts them.
"""

import numpy as np
from torch import Tensor

from mrq.algorithms.augmentation import OFFSETS
from mrq.algorithms.drqv2.hyperparameters import Hyperparameters
from mrq.interface import Array, Spec

Noise = dict[str, Tensor]


def acting_noise(generator: np.random.Generator, count: int, spec: Spec) -> dict[str, Array]:
    """Draws `count` uniform random actions, and noise for as many of the actor's."""
    shape = (count, spec.action_size)
    return {
        "exploration_noise": generator.standard_normal(shape, dtype=np.float32),
        "random_actions": generator.uniform(-1, 1, shape).astype(np.float32),
    }


def update_noise(generator: np.random.Generator, count: int, spec: Spec, h: Hyperparameters) -> dict[str, Array]:
    """Draws the noise of `count` updates; shifts for the first and the last state of each window."""
    shape = (count, h.batch_size, spec.action_size)
    return {
        "sample": generator.random((count, h.batch_size)),
        "shift": generator.integers(OFFSETS, size=(count, h.batch_size, 2, 2)),
        "target_noise": generator.standard_normal(shape, dtype=np.float32),
        "actor_noise": generator.standard_normal(shape, dtype=np.float32),
    }
