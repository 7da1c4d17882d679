import math

import pytest
import torch

from mrq.algorithms.mrq.two_hot import bin_locations, cross_entropy, two_hot

BINS = torch.tensor([-4.0, -1.0, 0.0, 1.0, 3.0])


def test_bins_are_symexp_of_even_points():
    bins = bin_locations(65, 10.0)
    assert bins.shape == (65,)
    assert bins[32] == 0
    assert bins[64] == pytest.approx(math.exp(10) - 1)
    assert bins[0] == -bins[64]
    assert bins[33] == pytest.approx(math.exp(20 / 64) - 1)


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        (0.0, [0, 0, 1, 0, 0]),
        (0.25, [0, 0, 0.75, 0.25, 0]),
        (2.5, [0, 0, 0, 0.25, 0.75]),  # linear in raw reward: 1.5 of the 2 between the bins
        (-1.75, [0.25, 0.75, 0, 0, 0]),
        (3.0, [0, 0, 0, 0, 1]),
        (-4.0, [1, 0, 0, 0, 0]),
        (-999_500.0, [1, 0, 0, 0, 0]),
        (1e9, [0, 0, 0, 0, 1]),
    ],
)
def test_reward_splits_between_its_neighbours(reward, expected):
    torch.testing.assert_close(two_hot(torch.tensor(reward), BINS), torch.tensor(expected, dtype=torch.float32))


def test_every_reward_is_a_distribution_whose_mean_it_is():
    bins = bin_locations(65, 10.0).double()
    rewards = torch.linspace(-20_000, 20_000, 1001, dtype=torch.float64)
    weights = two_hot(rewards, bins)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(rewards))
    torch.testing.assert_close((weights * bins).sum(-1), rewards)
    assert ((weights > 1e-12).sum(-1) <= 2).all()


def test_cross_entropy_by_hand():
    logits = torch.tensor([math.log(0.2), math.log(0.3), math.log(0.5)])
    distribution = torch.tensor([0.0, 0.25, 0.75])
    assert cross_entropy(logits, distribution).item() == pytest.approx(-0.25 * math.log(0.3) - 0.75 * math.log(0.5))
