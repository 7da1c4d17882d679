"""95% intervals by the stratified bootstrap: each task's seeds are resampled with replacement.

This is rliable's method without its dependencies (SciPy, pandas, seaborn, arch). Unlike in rliable, tasks may have
different numbers of seeds.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mrq.interface import Array

RESAMPLES = 2_000
QUANTILES = (0.025, 0.975)


class Estimate(NamedTuple):
    """A mean and its 95% interval."""

    mean: float
    low: float
    high: float


def estimate(scores: Sequence[Array], aggregate: Callable[[Sequence[Array]], Array]) -> Estimate:
    """Returns an aggregate of the scores, one array (seeds,) per task, with its interval; always the same one."""
    rng = np.random.default_rng(0)
    resampled = [own[_resampled_seeds(rng, len(own))] for own in scores]
    low, high = np.quantile(aggregate(resampled), QUANTILES)
    return Estimate(float(aggregate(scores)), float(low), float(high))


def estimate_curve(scores: Sequence[Array]) -> tuple[Array, Array, Array]:
    """Returns the mean of the tasks' scores (seeds, steps) at each step, with its interval, as `estimate` does."""
    rng = np.random.default_rng(0)
    resampled = np.zeros((RESAMPLES, scores[0].shape[1]))
    for own in scores:
        seeds = np.arange(len(own))
        weights = (_resampled_seeds(rng, len(own))[:, :, None] == seeds).mean(1)  # (RESAMPLES, seeds)
        resampled += weights @ own / len(scores)
    low, high = np.quantile(resampled, QUANTILES, axis=0)
    return np.mean([own.mean(0) for own in scores], axis=0), low, high


def _resampled_seeds(rng: np.random.Generator, seeds: int) -> Array:
    return rng.integers(seeds, size=(RESAMPLES, seeds))
