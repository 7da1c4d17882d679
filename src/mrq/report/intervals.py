"""95% intervals by the stratified bootstrap: each task's seeds are drawn anew, with replacement.

This is what rliable does, whose weight (SciPy, pandas, seaborn, arch) a report does not need; unlike there, tasks may
have different numbers of seeds.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mrq.interface import Array

DRAWS = 2_000
QUANTILES = (0.025, 0.975)


class Estimate(NamedTuple):
    mean: float
    low: float
    high: float


def estimate(scores: Sequence[Array], aggregate: Callable[[Sequence[Array]], Array]) -> Estimate:
    """An aggregate of tasks' scores (seeds,), an array a task, and its interval; the same whenever it is asked for."""
    rng = np.random.default_rng(0)
    drawn = [own[_draws(rng, len(own))] for own in scores]
    low, high = np.quantile(aggregate(drawn), QUANTILES)
    return Estimate(float(aggregate(scores)), float(low), float(high))


def estimate_curve(scores: Sequence[Array]) -> tuple[Array, Array, Array]:
    """The mean of tasks' scores (seeds, steps) at each step, and its interval: what `estimate` gives of that step."""
    rng = np.random.default_rng(0)
    drawn = np.zeros((DRAWS, scores[0].shape[1]))
    for own in scores:
        seeds = np.arange(len(own))
        shares = (_draws(rng, len(own))[:, :, None] == seeds).mean(1)  # (DRAWS, seeds), how much of a draw each is
        drawn += shares @ own / len(scores)
    low, high = np.quantile(drawn, QUANTILES, axis=0)
    return np.mean([own.mean(0) for own in scores], axis=0), low, high


def _draws(rng: np.random.Generator, seeds: int) -> Array:
    return rng.integers(seeds, size=(DRAWS, seeds))
