"""The paper's three theorems (section 4.1), on finite Markov decision processes where everything can be computed.

1. Linear values learned by temporal differences, and those of a linear model of rewards and dynamics, are the same.
2. Their error is bounded by how well that model predicts rewards and the next features.
3. Features that tell apart what rewards and dynamics tell apart (a homomorphism) carry every value, the best too.

A pair is a state and an action; arrays over pairs have one axis, state after state.
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
    """What predicts the reward, and the next pair's features, from a pair's features: w_r and W_p."""

    reward: Array  # (features,)
    dynamics: Array  # (features, features)


def random_process(rng: np.random.Generator, states: int, actions: int, discount: float) -> Process:
    transitions = rng.dirichlet(np.full(states, 0.3), (states, actions))  # from most pairs, few states are likely
    return Process(transitions, rng.normal(size=(states, actions)), discount)


def random_policy(rng: np.random.Generator, states: int, actions: int) -> Array:
    """(states, actions), probabilities"""
    return rng.dirichlet(np.ones(actions), states)


def from_pair_to_pair(process: Process, policy: Array) -> Array:
    """(pairs, pairs), the probabilities that one pair follows another."""
    pairs = process.rewards.size
    return np.asarray(np.einsum("sat,tb->satb", process.transitions, policy)).reshape(pairs, pairs)


def visits(process: Process, policy: Array) -> Array:
    """(pairs,), how often each pair is met in the long run."""
    matrix = from_pair_to_pair(process, policy)
    pairs = len(matrix)
    # Stationary, and summing to one.
    equations = np.vstack([matrix.T - np.eye(pairs), np.ones(pairs)])
    return np.asarray(np.linalg.lstsq(equations, np.append(np.zeros(pairs), 1.0), rcond=None)[0])


def values(process: Process, policy: Array) -> Array:
    """Q of a policy (states, actions), exactly."""
    ahead = process.discount * from_pair_to_pair(process, policy)
    solved = np.linalg.solve(np.eye(len(ahead)) - ahead, process.rewards.ravel())
    return solved.reshape(process.rewards.shape)


def best_values(process: Process, tolerance: float = 1e-12) -> Array:
    """Q of the best policy (states, actions), by iteration."""
    q = np.zeros_like(process.rewards)
    while True:
        improved = process.rewards + process.discount * process.transitions @ q.max(-1)
        if np.abs(improved - q).max() <= tolerance:
            return np.asarray(improved)
        q = improved


# Theorems 1 and 2. Features are (pairs, features); `weights` (pairs,) say how much each pair counts.


def td_step(process: Process, policy: Array, features: Array, weights: Array, w: Array, rate: float) -> Array:
    """One semi-gradient step of temporal-difference learning."""
    following = from_pair_to_pair(process, policy) @ features
    errors = process.rewards.ravel() + process.discount * following @ w - features @ w
    return np.asarray(w + rate * features.T @ (weights * errors))


def td_solution(process: Process, policy: Array, features: Array, weights: Array) -> Array:
    """Where temporal-difference learning comes to rest."""
    following = from_pair_to_pair(process, policy) @ features
    weighted = features.T * weights
    a = weighted @ (features - process.discount * following)
    return np.asarray(np.linalg.solve(a, weighted @ process.rewards.ravel()))


def fitted_model(process: Process, policy: Array, features: Array, weights: Array) -> LinearModel:
    """By least squares."""
    following = from_pair_to_pair(process, policy) @ features
    weighted = features.T * weights
    aims = np.column_stack([process.rewards.ravel(), following])
    solved = np.linalg.solve(weighted @ features, weighted @ aims)
    return LinearModel(solved[:, 0], solved[:, 1:])


def unrolled(model: LinearModel, discount: float, steps: int) -> Array:
    """The weights of the values that the model predicts `steps` steps ahead."""
    w = np.zeros_like(model.reward)
    for _ in range(steps):
        w = model.reward + discount * model.dynamics @ w
    return w


def model_solution(model: LinearModel, discount: float) -> Array:
    """The same without an end."""
    return np.asarray(np.linalg.solve(np.eye(len(model.reward)) - discount * model.dynamics, model.reward))


def error_bound(process: Process, policy: Array, features: Array, model: LinearModel) -> float:
    """Theorem 2: no value that `model_solution` gives is further than this from the policy's own."""
    following = from_pair_to_pair(process, policy) @ features
    w = model_solution(model, process.discount)
    reward_errors = np.abs(features @ model.reward - process.rewards.ravel())
    dynamics_errors = np.abs(features @ model.dynamics - following).sum(-1)
    return float((reward_errors + np.abs(w).max() * dynamics_errors).max() / (1 - process.discount))


# Theorem 3.


def with_copies(rng: np.random.Generator, process: Process, copies: int) -> tuple[Process, Array]:
    """A process in which each state has `copies` that rewards and dynamics do not tell apart; which one each is of.

    What leads to a state leads to its copies with any probabilities, other ones from every pair.
    """
    states, actions = process.rewards.shape
    kinds = np.repeat(np.arange(states), copies)
    shares = rng.dirichlet(np.ones(copies), (len(kinds), actions, states))  # (all states, actions, states, copies)
    transitions = (process.transitions[kinds][..., None] * shares).reshape(len(kinds), actions, len(kinds))
    return Process(transitions, process.rewards[kinds], process.discount), kinds
