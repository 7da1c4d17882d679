"""Scores that can be averaged over tasks (paper, appendix B.3), and the paper's three averages."""

from collections.abc import Callable, Sequence

import numpy as np

from mrq.environments.tasks import full_name, suite_of
from mrq.errors import MRQError
from mrq.interface import Array
from mrq.report.published import normalisation

CONTROL_RETURN = 1_000.0  # the largest return of an episode in DeepMind Control


def unit_of(suite: str) -> float:
    """Returns the unit of the paper's aggregates: 1,000 in DeepMind Control, which has returns; otherwise 1."""
    return CONTROL_RETURN if suite in ("dmc", "dmc-visual") else 1.0


def score(task: str, returns: Array) -> Array:
    """Returns normalised scores.

    A score of 1 is TD3 in Gym, a human in Atari, and the largest return in DeepMind Control. A score of 0 is a random
    policy, except in DeepMind Control, where it is a return of 0.
    """
    if (unit := unit_of(suite_of(task))) > 1:
        return np.asarray(returns) / unit
    if full_name(task) not in normalisation():
        raise MRQError(f"{task} is not one of the paper's tasks, so its returns cannot be normalised.")
    random, reference = normalisation()[full_name(task)]
    return (np.asarray(returns) - random) / (reference - random)


def mean(scores: Sequence[Array]) -> Array:
    """Returns the mean over tasks of the tasks' means."""
    return np.asarray(np.mean([own.mean(-1) for own in scores], axis=0))


def median(scores: Sequence[Array]) -> Array:
    """Returns the median over tasks of the tasks' means."""
    return np.asarray(np.median([own.mean(-1) for own in scores], axis=0))


def interquartile_mean(scores: Sequence[Array]) -> Array:
    """Returns the mean of all seeds without the lowest and the highest quarter, each rounded down."""
    ordered = np.sort(np.concatenate(scores, axis=-1), axis=-1)
    cut = ordered.shape[-1] // 4
    return np.asarray(ordered[..., cut : ordered.shape[-1] - cut].mean(-1))


# From the tasks' scores, one array (…, seeds) per task, to (…). Only the last one weighs tasks by their seeds.
AGGREGATES: dict[str, Callable[[Sequence[Array]], Array]] = {
    "Mean": mean,
    "Median": median,
    "IQM": interquartile_mean,
}
