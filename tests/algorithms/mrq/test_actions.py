import math

import numpy as np
import pytest
import torch

from mrq import Hyperparameters
from mrq.algorithms.mrq import actions
from mrq.algorithms.mrq.noise import acting_noise, gumbel
from mrq.interface import Spec

H = Hyperparameters()
ALL = torch.tensor([True])
NUMBERS = Spec(continuous=2)


def choice(options):
    return Spec(choices=(options,))


def test_continuous_target_noise_is_clipped_at_0_3_and_actions_at_1():
    pre = torch.tensor([[0.0, 0.0, 0.0, 3.0]])
    noise = {"target_noise": torch.tensor([[0.5, 4.0, -9.0, 4.0]])}
    expected = [0.1, 0.3, -0.3, 1.0]
    torch.testing.assert_close(actions.target_actions(pre, noise, ALL, Spec(continuous=4), H), torch.tensor([expected]))


def test_discrete_target_noise_is_halved():
    # Softmax at temperature 10 of (0, 1): 0.475, 0.525. Noise of 2 becomes 0.2 unclipped, and 0.15 clipped.
    pre, zero = torch.tensor([[0.0, 1.0]]), torch.zeros(1, 2)
    share = 1 / (1 + math.exp(-0.1))
    gap = 2 * share - 1
    enough = (gap + 0.001) / 0.1
    for normal, chosen in [(enough, [1, 0]), (enough - 0.02, [0, 1])]:
        noise = {"target_noise": torch.tensor([[normal, 0.0]]), "target_gumbel": zero}
        assert actions.target_actions(pre, noise, ALL, choice(2), H).tolist() == [chosen]
    far = torch.tensor([[0.0, 10 * math.log(0.575 / 0.425) + 0.01]])  # a gap just above the clip of 0.15
    noise = {"target_noise": torch.tensor([[100.0, 0.0]]), "target_gumbel": zero}
    assert actions.target_actions(far, noise, ALL, choice(2), H).tolist() == [[0, 1]]


def test_exploration_is_not_clipped_before_the_action_is():
    noise = {"exploration_noise": torch.tensor([[4.0, -10.0]])}
    explored = actions.exploring_actions(torch.zeros(1, 2), noise, ALL, NUMBERS, H)
    torch.testing.assert_close(explored, torch.tensor([[0.8, -1.0]]))


def test_discrete_exploration_uses_gumbel_and_half_the_noise():
    pre = torch.tensor([[0.0, 0.0, 0.0]])
    noise = {"exploration_gumbel": torch.tensor([[0.0, 1.0, 0.0]]), "exploration_noise": torch.zeros(1, 3)}
    assert actions.exploring_actions(pre, noise, ALL, choice(3), H).tolist() == [[0, 1, 0]]
    noise["exploration_noise"] = torch.tensor([[5.0, 0.0, 0.0]])
    assert actions.exploring_actions(pre, noise, ALL, choice(3), H).tolist() == [[1, 0, 0]]


def test_policy_actions_are_soft_gumbel_softmax_at_temperature_10():
    pre, g = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.5, -0.5]])
    expected = np.exp([0.15, 0.15]) / np.exp([0.15, 0.15]).sum()
    result = actions.policy_actions(pre, {"policy_gumbel": g}, ALL, choice(2), H)
    torch.testing.assert_close(result, torch.from_numpy(expected[None]).float())
    torch.testing.assert_close(actions.policy_actions(pre, {}, ALL, NUMBERS, H), torch.tanh(pre))


def test_evaluation_draws_from_softmax_of_the_logits_or_takes_the_argmax():
    logits = torch.tensor([0.0, 1.0, 2.0]).expand(20_000, 3)
    g = torch.from_numpy(gumbel(np.random.default_rng(0), (20_000, 3)))
    drawn = actions.evaluation_actions(logits, {"evaluation_gumbel": g}, ALL, choice(3)).mean(0)
    expected = torch.softmax(torch.tensor([0.0, 1.0, 2.0]), 0)
    torch.testing.assert_close(drawn, expected, atol=0.015, rtol=0)
    assert actions.evaluation_actions(logits[:1], {}, ALL, choice(3)).tolist() == [[0, 0, 1]]
    torch.testing.assert_close(
        actions.evaluation_actions(torch.tensor([[0.5]]), {}, ALL, Spec(continuous=1)), torch.tensor([[math.tanh(0.5)]])
    )


def test_random_actions_cover_the_space_evenly():
    discrete = acting_noise(np.random.default_rng(0), 9_000, Spec(numbers=3, choices=(3,)))["random_actions"]
    assert np.array_equal(discrete.sum(1), np.ones(9_000))
    assert discrete.mean(0) == pytest.approx([1 / 3] * 3, abs=0.02)
    box = acting_noise(np.random.default_rng(0), 9_000, Spec(numbers=3, continuous=2))["random_actions"]
    assert box.min() >= -1
    assert box.max() <= 1
    assert box.std(0) == pytest.approx([1 / math.sqrt(3)] * 2, abs=0.02)


def test_actions_beyond_an_agents_own_are_never_chosen_and_take_no_share():
    pre, own = torch.tensor([[0.0, 1.0, 50.0]]), torch.tensor([True, True, False])
    zero, large = torch.zeros(1, 3), torch.tensor([[0.0, 0.0, 99.0]])
    soft = actions.policy_actions(pre, {"policy_gumbel": zero}, own, choice(3), H)
    torch.testing.assert_close(soft[0, :2], torch.softmax(torch.tensor([0.0, 0.1]), 0))
    assert soft[0, 2] == 0
    noise = {"target_noise": large, "target_gumbel": zero, "exploration_noise": large, "exploration_gumbel": zero}
    assert actions.target_actions(pre, noise, own, choice(3), H).tolist() == [[0, 1, 0]]
    assert actions.exploring_actions(pre, noise, own, choice(3), H).tolist() == [[0, 1, 0]]
    assert actions.evaluation_actions(pre, {}, own, choice(3)).tolist() == [[0, 1, 0]]
