"""Noise is a function of seed, stream and position, however it is asked for."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from mrq.algorithms.noise_blocks import NoiseBlocks
from mrq.interface import Spec
from mrq.randomness import Stream, generator

SIZE = 10
SPECS = [Spec(numbers=1, continuous=2), Spec(numbers=1, continuous=3)]


def draw(g, spec):
    return {"normal": g.standard_normal((SIZE, spec.action_size), dtype=np.float32), "uniform": g.random((SIZE, 4))}


def expected(agent, position):
    block, place = divmod(position, SIZE)
    drawn = draw(generator((7, 8)[agent], Stream.ACTING, block), SPECS[agent])
    return drawn["normal"][place], drawn["uniform"][place]


def test_every_position_has_its_noise_also_after_jumps_and_padded_for_the_smaller_agent():
    blocks = NoiseBlocks((7, 8), SPECS, Stream.ACTING, SIZE, draw, torch.device("cpu"), ThreadPoolExecutor(1))
    for position, count in [(0, 1), (1, 2), (9, 1), (10, 1), (57, 3), (58, 1), (3, 1), (20, 10)]:
        assert blocks.seek(position) == position % SIZE
        noise = blocks.take(count)
        assert noise["normal"].shape == (2, count, 3)
        for agent, size in enumerate((2, 3)):
            for t in range(count):
                normal, uniform = expected(agent, position + t)
                np.testing.assert_array_equal(noise["normal"][agent, t, :size], normal)
                assert not noise["normal"][agent, t, size:].any()
                np.testing.assert_array_equal(noise["uniform"][agent, t], uniform)
