"""Randomness as data: every random number that an agent's steps and updates use, drawn from a given generator.

So an agent's run depends on its own seed alone, not on how many train beside it, and a loss is a pure function.
Each function draws for `count` actions or updates at once; the leading axis counts them. Gumbel noise is drawn where
actions have choices, shifts where observations have images.
"""

import numpy as np
from torch import Tensor

from mrq.algorithms.augmentation import OFFSETS
from mrq.algorithms.mrq.hyperparameters import Hyperparameters
from mrq.interface import Array, Spec

Noise = dict[str, Tensor]


def acting_noise(generator: np.random.Generator, count: int, spec: Spec) -> dict[str, Array]:
    """Draws `count` uniform random actions, and noise for as many of the policy's."""
    shape = (count, spec.action_size)
    noise: dict[str, Array] = {"exploration_noise": generator.standard_normal(shape, dtype=np.float32)}
    parts = []
    if spec.continuous:
        parts.append(generator.uniform(-1, 1, (count, spec.continuous)).astype(np.float32))
    if spec.choices:
        noise["exploration_gumbel"] = gumbel(generator, shape)
        for options in spec.choices:
            chosen = np.zeros((count, options), np.float32)
            chosen[np.arange(count), generator.integers(options, size=count)] = 1
            parts.append(chosen)
    return noise | {"random_actions": np.concatenate(parts, 1)}


def encoder_noise(generator: np.random.Generator, count: int, spec: Spec, h: Hyperparameters) -> dict[str, Array]:
    """Draws the noise of `count` encoder updates."""
    noise: dict[str, Array] = {"sample": generator.random((count, h.batch_size))}
    if spec.images:
        noise["shift"] = generator.integers(OFFSETS, size=(count, h.batch_size, h.encoder_horizon + 1, 2))
    return noise


def value_noise(generator: np.random.Generator, count: int, spec: Spec, h: Hyperparameters) -> dict[str, Array]:
    """Draws the noise of `count` value and policy updates; shifts for the first and the last state of each window."""
    shape = (count, h.batch_size, spec.action_size)
    noise: dict[str, Array] = {
        "sample": generator.random((count, h.batch_size)),
        "target_noise": generator.standard_normal(shape, dtype=np.float32),
    }
    if spec.choices:
        noise["target_gumbel"] = gumbel(generator, shape)
        noise["policy_gumbel"] = gumbel(generator, shape)
    if spec.images:
        noise["shift"] = generator.integers(OFFSETS, size=(count, h.batch_size, 2, 2))
    return noise


def gumbel(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Draws standard Gumbel noise: minus the logarithm of a standard exponential."""
    exponential = generator.standard_exponential(shape, dtype=np.float32)
    return -np.log(np.maximum(exponential, np.finfo(np.float32).tiny))
