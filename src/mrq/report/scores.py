"""Scores that can be averaged over tasks (paper, appendix B.3), and the ways in which the paper does that."""

from collections.abc import Callable, Sequence

import numpy as np

from mrq.environments.tasks import full_name, suite_of
from mrq.errors import MRQError
from mrq.interface import Array
from mrq.report.published import normalisation

CONTROL_RETURN = 1_000.0  # the most that an episode of DeepMind Control can bring


def unit_of(suite: str) -> float:
    """What the paper's aggregates of a suite are in: returns in DeepMind Control, else scores."""
    return CONTROL_RETURN if suite in ("dmc", "dmc-visual") else 1.0


def score(task: str, returns: Array) -> Array:
    """TD3 is 1 in gym, humans are in Atari, and the largest return is in DeepMind Control; random is 0 but there."""
    if (unit := unit_of(suite_of(task))) > 1:
        return np.asarray(returns) / unit
    if full_name(task) not in normalisation():
        raise MRQError(f"{task} is none of the paper's tasks, so there is nothing to normalise its returns by.")
    random, reference = normalisation()[full_name(task)]
    return (np.asarray(returns) - random) / (reference - random)


def mean(scores: Sequence[Array]) -> Array:
    return np.asarray(np.mean([own.mean(-1) for own in scores], axis=0))


def median(scores: Sequence[Array]) -> Array:
    return np.asarray(np.median([own.mean(-1) for own in scores], axis=0))


def interquartile_mean(scores: Sequence[Array]) -> Array:
    """Of the middle half of all seeds: as many as fit into the lowest quarter are left out, and of the highest."""
    ordered = np.sort(np.concatenate(scores, axis=-1), axis=-1)
    cut = ordered.shape[-1] // 4
    return np.asarray(ordered[..., cut : ordered.shape[-1] - cut].mean(-1))


# Of tasks' scores (…, seeds), an array a task, to (…): means of tasks, whatever their seeds, but for the last.
AGGREGATES: dict[str, Callable[[Sequence[Array]], Array]] = {
    "Mean": mean,
    "Median": median,
    "IQM": interquartile_mean,
}
