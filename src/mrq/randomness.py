"""Every random number of an agent comes from its seed, a named stream and an index: nothing to store, nothing shared.

A generator is made where it is needed and forgotten, so a checkpoint's random state is its counters, and an agent
draws the same numbers alone, among others, or after being resumed.
"""

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    PARAMETERS = 0
    ENVIRONMENT = 1  # index: episode
    EVALUATION = 2  # index: step, episode
    ACTING = 3  # index: block of steps
    ENCODER_UPDATES = 4  # index: target period
    VALUE_UPDATES = 5  # index: target period
    PREDICTION = 6


def generator(seed: int, stream: Stream, *index: int) -> np.random.Generator:
    return np.random.default_rng([seed, int(stream), *(index or (0,))])


def environment_seed(seed: int, episode: int) -> int:
    """Deviation: episodes are seeded one by one, so that one can be played again without those before it."""
    return int(generator(seed, Stream.ENVIRONMENT, episode).integers(2**31))
