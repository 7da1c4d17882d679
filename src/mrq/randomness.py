"""Random numbers. Each of an agent's generators is a function of the agent's seed, a named stream and an index.

Generators are made where they are needed and never stored: the counters of a checkpoint determine all random numbers
that follow. An agent draws the same numbers alone, in a population, and after it is resumed.
"""

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """What random numbers are used for. The numbers must not change, because old seeds would give other results."""

    PARAMETERS = 0
    ENVIRONMENT = 1  # index: episode, and the number of the environment if it is not the agent's first
    EVALUATION = 2  # index: step, episode
    ACTING = 3  # index: block of steps
    ENCODER_UPDATES = 4  # index: target period
    VALUE_UPDATES = 5  # index: target period
    PREDICTION = 6


def generator(seed: int, stream: Stream, *index: int) -> np.random.Generator:
    """Returns the generator of a seed, a stream and an index."""
    return np.random.default_rng([seed, int(stream), *(index or (0,))])


def environment_seed(seed: int, episode: int, copy: int = 0) -> int:
    """Returns the seed of an episode's reset in one of an agent's environments, its copies.

    Deviation: every episode has a seed of its own, so that it can be replayed without those before it.
    """
    index = (episode, copy) if copy else (episode,)
    return int(generator(seed, Stream.ENVIRONMENT, *index).integers(2**31))
