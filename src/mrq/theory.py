"""The paper's three theorems (section 4.1) on finite Markov decision processes, where everything can be computed.

1. Linear temporal-difference learning and a linear model of rewards and dynamics have the same values.
2. The error of these values is bounded by the model's errors in rewards and next features.
3. If states with equal features have equal rewards and dynamics (a homomorphism), then the features determine the
   values of every policy and the optimal values.

A pair is a state and an action. Arrays over pairs have one axis, state after state.
"""

from typing import NamedTuple

import numpy as np

from mrq.interface import Array


class Process(NamedTuple):
    """A Markov decision process."""

    transitions: Array  # (states, actions, states), probabilities
    rewards: Array  # (states, actions), expected
    discount: float


class LinearModel(NamedTuple):
    """A linear model that predicts the reward and the next pair's features from a pair's features: w_r and W_p."""

    reward: Array  # (features,)
    dynamics: Array  # (features, features)


def random_process(rng: np.random.Generator, states: int, actions: int, discount: float) -> Process:
    """Returns a process with random transitions and rewards."""
    transitions = rng.dirichlet(np.full(states, 0.3), (states, actions))  # few likely next states for most pairs
    return Process(transitions, rng.normal(size=(states, actions)), discount)


def random_policy(rng: np.random.Generator, states: int, actions: int) -> Array:
    """Returns the probabilities of a random policy (states, actions)."""
    return rng.dirichlet(np.ones(actions), states)


def pair_transitions(process: Process, policy: Array) -> Array:
    """Returns the probabilities (pairs, pairs) that one pair follows another."""
    pairs = process.rewards.size
    return np.asarray(np.einsum("sat,tb->satb", process.transitions, policy)).reshape(pairs, pairs)


def visit_frequencies(process: Process, policy: Array) -> Array:
    """Returns how often each pair is visited in the long run (pairs,)."""
    matrix = pair_transitions(process, policy)
    pairs = len(matrix)
    # The frequencies are stationary and sum to one.
    equations = np.vstack([matrix.T - np.eye(pairs), np.ones(pairs)])
    return np.asarray(np.linalg.lstsq(equations, np.append(np.zeros(pairs), 1.0), rcond=None)[0])


def values(process: Process, policy: Array) -> Array:
    """Returns the exact values Q of a policy (states, actions)."""
    ahead = process.discount * pair_transitions(process, policy)
    solved = np.linalg.solve(np.eye(len(ahead)) - ahead, process.rewards.ravel())
    return solved.reshape(process.rewards.shape)


def optimal_values(process: Process, tolerance: float = 1e-12) -> Array:
    """Returns the optimal values Q (states, actions) by value iteration."""
    q = np.zeros_like(process.rewards)
    while True:
        improved = process.rewards + process.discount * process.transitions @ q.max(-1)
        if np.abs(improved - q).max() <= tolerance:
            return np.asarray(improved)
        q = improved


# Theorems 1 and 2. Features are (pairs, features); `weights` (pairs,) are those of the pairs in the squared error.


def td_step(process: Process, policy: Array, features: Array, weights: Array, w: Array, rate: float) -> Array:
    """Returns w after one semi-gradient step of temporal-difference learning."""
    following = pair_transitions(process, policy) @ features
    errors = process.rewards.ravel() + process.discount * following @ w - features @ w
    return np.asarray(w + rate * features.T @ (weights * errors))


def td_fixed_point(process: Process, policy: Array, features: Array, weights: Array) -> Array:
    """Returns the fixed point of temporal-difference learning."""
    following = pair_transitions(process, policy) @ features
    weighted = features.T * weights
    a = weighted @ (features - process.discount * following)
    return np.asarray(np.linalg.solve(a, weighted @ process.rewards.ravel()))


def fitted_model(process: Process, policy: Array, features: Array, weights: Array) -> LinearModel:
    """Returns the least-squares linear model of the rewards and the next features."""
    following = pair_transitions(process, policy) @ features
    weighted = features.T * weights
    aims = np.column_stack([process.rewards.ravel(), following])
    solved = np.linalg.solve(weighted @ features, weighted @ aims)
    return LinearModel(solved[:, 0], solved[:, 1:])


def unrolled(model: LinearModel, discount: float, steps: int) -> Array:
    """Returns the weights of the values that the model predicts over `steps` steps."""
    w = np.zeros_like(model.reward)
    for _ in range(steps):
        w = model.reward + discount * model.dynamics @ w
    return w


def model_solution(model: LinearModel, discount: float) -> Array:
    """Returns the weights of the values that the model predicts over an infinite horizon."""
    return np.asarray(np.linalg.solve(np.eye(len(model.reward)) - discount * model.dynamics, model.reward))


def error_bound(process: Process, policy: Array, features: Array, model: LinearModel) -> float:
    """Returns theorem 2's bound on the largest error of the values of `model_solution`."""
    following = pair_transitions(process, policy) @ features
    w = model_solution(model, process.discount)
    reward_errors = np.abs(features @ model.reward - process.rewards.ravel())
    dynamics_errors = np.abs(features @ model.dynamics - following).sum(-1)
    return float((reward_errors + np.abs(w).max() * dynamics_errors).max() / (1 - process.discount))


# Theorem 3.


def with_copies(rng: np.random.Generator, process: Process, copies: int) -> tuple[Process, Array]:
    """Returns a process with `copies` equivalent copies of each state, and the original state of each copy.

    The probability of a state is split among its copies, randomly for every pair that leads to it.
    """
    states, actions = process.rewards.shape
    kinds = np.repeat(np.arange(states), copies)
    shares = rng.dirichlet(np.ones(copies), (len(kinds), actions, states))  # (all states, actions, states, copies)
    transitions = (process.transitions[kinds][..., None] * shares).reshape(len(kinds), actions, len(kinds))
    return Process(transitions, process.rewards[kinds], process.discount), kinds
