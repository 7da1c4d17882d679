"""Scores that can be averaged over tasks (paper, appendix B.3), and the ways in which the paper does that."""

from collections.abc import Callable

import numpy as np

from mrq.interface import Array
from mrq.report.published import normalisation

CONTROL_RETURN = 1_000.0  # the most that an episode of DeepMind Control can bring


def score(task: str, returns: Array) -> Array:
    """TD3 is 1 in gym, humans are in Atari, and the largest return is in DeepMind Control; random is 0 but there."""
    if task.startswith(("dmc/", "dmc-visual/")):
        return np.asarray(returns) / CONTROL_RETURN
    _, random, reference = normalisation()[task]
    return (np.asarray(returns) - random) / (reference - random)


def interquartile_mean(scores: Array) -> float:
    """Of the middle half: as many as lie wholly within the lowest quarter are left out, and as many of the highest."""
    ordered = np.sort(scores, axis=None)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


AGGREGATES: dict[str, Callable[[Array], float]] = {
    "Mean": lambda scores: float(np.mean(scores)),
    "Median": lambda scores: float(np.median(scores)),
    "IQM": interquartile_mean,
}
