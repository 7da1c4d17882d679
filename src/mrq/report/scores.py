"""Scores that can be averaged over tasks (paper, appendix B.3), and the ways in which the paper does that."""

from collections.abc import Callable

import numpy as np

from mrq.environments.tasks import full_name, suite_of
from mrq.errors import MRQError
from mrq.interface import Array
from mrq.report.published import normalisation

CONTROL_RETURN = 1_000.0  # the most that an episode of DeepMind Control can bring


def score(task: str, returns: Array) -> Array:
    """TD3 is 1 in gym, humans are in Atari, and the largest return is in DeepMind Control; random is 0 but there."""
    if suite_of(task) in ("dmc", "dmc-visual"):
        return np.asarray(returns) / CONTROL_RETURN
    if full_name(task) not in normalisation():
        raise MRQError(f"{task} is none of the paper's tasks, so there is nothing to normalise its returns by.")
    random, reference = normalisation()[full_name(task)]
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
