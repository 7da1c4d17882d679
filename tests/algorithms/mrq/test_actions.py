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


HYBRID = Spec(continuous=2, choices=(3, 2))
FORBIDDEN = torch.tensor([[True, True, True, False, True, True, False], [True] * 7])  # an option of each choice
PRE = np.array([[0.5, -1, 3, 9, 1, 0, 7], [-0.25, 2, 1, 2, 3, 4, -4]])


def tensor(array):
    return torch.from_numpy(np.asarray(array, np.float32))


def soft(scores, allowed):
    """Computes the softmax over the options that are allowed."""
    weights = np.where(allowed, np.exp(np.asarray(scores, float)), 0)
    return weights / weights.sum(-1, keepdims=True)


def one_hot(places, options):
    return np.eye(options)[places]


def in_groups(array):
    return array[:, :2], array[:, 2:5], array[:, 5:]


def test_the_policys_hybrid_actions_have_tanh_and_a_gumbel_softmax_per_choice():
    gumbel_noise = np.random.default_rng(0).gumbel(size=(2, 7))
    numbers, *choices = in_groups(PRE)
    _, *noises = in_groups(gumbel_noise)
    _, *allowed = in_groups(FORBIDDEN.numpy())
    expected = [np.tanh(numbers)]
    expected += [soft((pre + g) / 10, own) for pre, g, own in zip(choices, noises, allowed, strict=True)]
    result = actions.policy_actions(tensor(PRE), {"policy_gumbel": tensor(gumbel_noise)}, FORBIDDEN, HYBRID, H)
    np.testing.assert_allclose(result.numpy(), np.concatenate(expected, 1), rtol=1e-5)
    assert result[0, 3] == result[0, 6] == 0


def test_no_gradient_reaches_forbidden_options_and_none_is_nan():
    pre = tensor(PRE).requires_grad_()
    chosen = actions.policy_actions(pre, {"policy_gumbel": torch.zeros(2, 7)}, FORBIDDEN, HYBRID, H)
    (chosen * torch.arange(7)).sum().backward()
    assert pre.grad.isfinite().all()
    assert (pre.grad[0] != 0).tolist() == [False, True, True, False, True, False, False]  # one option is left of two
    assert (pre.grad[1] != 0).tolist() == [False] + [True] * 6


def perturbed(scores, normal, allowed, clip):
    """Adds noise to the shares of a choice's options, and returns the best one that is allowed."""
    noise = 0.5 * 0.2 * normal
    noise = noise if clip is None else noise.clip(-0.5 * clip, 0.5 * clip)
    shares = soft(scores / 10, allowed)
    return one_hot(np.where(allowed, shares + noise, -np.inf).argmax(1), scores.shape[1])


@pytest.mark.parametrize(
    ("choose", "prefix", "clip"),
    [(actions.exploring_actions, "exploration", None), (actions.target_actions, "target", 0.3)],
)
def test_hybrid_exploration_and_targets_add_noise_by_kind(choose, prefix, clip):
    rng = np.random.default_rng(1)
    spread = [np.zeros(5, int), np.zeros(5, int)]
    for _ in range(200):
        normal, gumbel_noise = 3 * rng.standard_normal((2, 7)), rng.gumbel(size=(2, 7))
        noise = {f"{prefix}_noise": tensor(normal), f"{prefix}_gumbel": tensor(gumbel_noise)}
        result = choose(tensor(PRE), noise, FORBIDDEN, HYBRID, H).numpy()
        numbers = 0.2 * normal[:, :2]
        numbers = np.tanh(PRE[:, :2]) + (numbers if clip is None else numbers.clip(-clip, clip))
        np.testing.assert_allclose(result[:, :2], numbers.clip(-1, 1), rtol=1e-5, atol=1e-6)
        for own in (slice(2, 5), slice(5, 7)):
            allowed = FORBIDDEN[:, own].numpy()
            expected = perturbed((PRE + gumbel_noise)[:, own], normal[:, own], allowed, clip)
            np.testing.assert_array_equal(result[:, own], expected)
        for row in (0, 1):
            spread[row] += result[row, 2:].astype(int)
    assert [count > 0 for count in spread[0]] == [True, False, True, True, False]
    assert all(spread[1] > 0)


def test_evaluation_takes_the_best_allowed_option_of_each_choice():
    result = actions.evaluation_actions(tensor(PRE), {}, FORBIDDEN, HYBRID)
    np.testing.assert_allclose(result[:, :2], np.tanh(PRE[:, :2]), rtol=1e-6)
    assert result[:, 2:].tolist() == [[1, 0, 0, 1, 0], [0, 0, 1, 1, 0]]  # 3 before 1, and not 9; 0, and not 7
    noise = {"evaluation_gumbel": torch.tensor([[0, 0, 0, 99, 3, 0, 99], [5, 5, 5, 0, 0, 0, 9.0]])}
    drawn = actions.evaluation_actions(tensor(PRE), noise, FORBIDDEN, HYBRID)
    assert drawn[:, 2:].tolist() == [[0, 0, 1, 1, 0], [1, 0, 0, 0, 1]]  # 1 + 3 before 3; -4 + 9 before 4
    assert torch.equal(drawn[:, :2], result[:, :2])


def test_random_actions_are_even_among_the_allowed_options():
    count = 12_000
    drawn = acting_noise(np.random.default_rng(0), count, HYBRID)
    assert drawn["random_actions"].shape == (count, 7)
    for own in (slice(2, 5), slice(5, 7)):
        assert np.array_equal(drawn["random_actions"][:, own].sum(1), np.ones(count))
    assert drawn["random_actions"].mean(0) == pytest.approx([0, 0, *[1 / 3] * 3, *[1 / 2] * 2], abs=0.02)
    assert np.corrcoef(drawn["random_actions"][:, 2], drawn["random_actions"][:, 5])[0, 1] == pytest.approx(0, abs=0.03)
    noise = {name: torch.from_numpy(array) for name, array in drawn.items()}
    masked = actions.random_actions(noise, FORBIDDEN[:1].expand(count, 7), HYBRID).numpy()
    assert masked[:, 2:].mean(0) == pytest.approx([1 / 2, 0, 1 / 2, 1, 0], abs=0.02)
    np.testing.assert_array_equal(masked[:, :2], drawn["random_actions"][:, :2])
