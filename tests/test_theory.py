"""Checks the paper's theorems on random processes, policies and features."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mrq import theory

PROBLEMS = st.tuples(
    st.integers(0, 2**32 - 1),  # seed
    st.integers(2, 8),  # states
    st.integers(1, 4),  # actions
    st.floats(0.0, 0.97),  # discount
)
few = settings(max_examples=60, deadline=None)


def drawn(problem):
    seed, states, actions, discount = problem
    rng = np.random.default_rng(seed)
    return rng, theory.random_process(rng, states, actions, discount), theory.random_policy(rng, states, actions)


def features_of(rng, pairs, share):
    return rng.normal(size=(pairs, max(1, round(share * pairs))))


def test_values_of_a_process_worked_out_by_hand():
    """There are two states: `stay` keeps the state, `go` changes it. Only staying in the second is rewarded."""
    transitions = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    process = theory.Process(transitions, np.array([[0.0, 0.0], [1.0, 0.0]]), 0.5)
    always_stay, half = np.array([[1.0, 0.0], [1.0, 0.0]]), np.full((2, 2), 0.5)
    np.testing.assert_allclose(theory.values(process, always_stay), [[0, 1], [2, 0]])
    # With v the mean over actions: v1 = (v1 + v2) / 4, v2 = (1 + (v1 + v2) / 2) / 2; so v1 = 0.25, v2 = 0.75.
    np.testing.assert_allclose(theory.values(process, half), [[0.125, 0.375], [1.375, 0.125]])
    np.testing.assert_allclose(theory.optimal_values(process), [[0.5, 1], [2, 0.5]])
    np.testing.assert_allclose(theory.visit_frequencies(process, half), [0.25] * 4)


@few
@given(PROBLEMS, st.floats(0.01, 1.0))
def test_model_free_and_model_based_solutions_agree(problem, share):
    rng, process, policy = drawn(problem)
    weights = rng.uniform(0.1, 1.0, process.rewards.size)  # any weights will do
    problem = (process, policy, features_of(rng, process.rewards.size, share), weights)
    model_free = theory.td_fixed_point(*problem)
    model_based = theory.model_solution(theory.fitted_model(*problem), process.discount)
    np.testing.assert_allclose(model_free, model_based, rtol=1e-5, atol=1e-7 * max(1, np.abs(model_free).max()))
    unchanged = theory.td_step(*problem, model_free, rate=1.0)
    np.testing.assert_allclose(unchanged, model_free, rtol=1e-5, atol=1e-6 * max(1, np.abs(model_free).max()))


@few
@given(PROBLEMS)
def test_both_methods_converge_to_the_solution(problem):
    rng, process, policy = drawn((*problem[:3], min(problem[3], 0.8)))
    features = features_of(rng, process.rewards.size, 0.3)
    weights = theory.visit_frequencies(process, policy)  # on-policy, so that neither method can diverge
    problem = (process, policy, features, weights)
    solution = features @ theory.td_fixed_point(*problem)
    planned = theory.unrolled(theory.fitted_model(*problem), process.discount, 200)
    np.testing.assert_allclose(features @ planned, solution, atol=1e-6 * max(1, np.abs(solution).max()))
    w, rate = np.zeros(features.shape[1]), 0.5 / np.linalg.eigvalsh((features.T * weights) @ features).max()
    before = np.abs(solution).max()
    for _ in range(2_000):
        w = theory.td_step(*problem, w, rate)
    assert np.abs(features @ w - solution).max() <= 0.5 * before + 1e-9


@few
@given(PROBLEMS, st.floats(0.01, 1.0))
def test_no_value_error_exceeds_its_bound(problem, share):
    rng, process, policy = drawn(problem)
    features = features_of(rng, process.rewards.size, share)
    model = theory.fitted_model(process, policy, features, np.ones(len(features)))
    error = np.abs(
        features @ theory.model_solution(model, process.discount) - theory.values(process, policy).ravel()
    ).max()
    assert error <= theory.error_bound(process, policy, features, model) * (1 + 1e-6) + 1e-6


@few
@given(PROBLEMS)
def test_one_feature_per_pair_leaves_no_error(problem):
    _, process, policy = drawn(problem)
    features = np.eye(process.rewards.size)
    model = theory.fitted_model(process, policy, features, np.ones(len(features)))
    np.testing.assert_allclose(
        theory.model_solution(model, process.discount), theory.values(process, policy).ravel(), atol=1e-9
    )
    assert theory.error_bound(process, policy, features, model) < 1e-9


@few
@given(PROBLEMS, st.integers(1, 4))
def test_merged_states_determine_the_values_of_every_policy_and_the_optimal_values(problem, copies):
    rng, small, policy = drawn(problem)
    large, kinds = theory.with_copies(rng, small, copies)
    np.testing.assert_allclose(large.transitions.sum(-1), 1)
    assert len(kinds) == copies * len(small.rewards)
    np.testing.assert_allclose(theory.values(large, policy[kinds]), theory.values(small, policy)[kinds], atol=1e-8)
    best = theory.optimal_values(large)
    np.testing.assert_allclose(best, theory.optimal_values(small)[kinds], atol=1e-8)
    assert (best >= theory.values(large, policy[kinds]) - 1e-8).all()
