"""What parts, masks and history are for: small tasks are learned with them, in well under a minute each."""

import numpy as np
import pytest

from mrq import MRQ, Hyperparameters
from tests.environments_for_tests import HybridTarget, Ranking, Recall

pytestmark = pytest.mark.slow
FAST = Hyperparameters(
    hidden_width=64,
    state_embedding=64,
    state_action_embedding=64,
    action_embedding=32,
    batch_size=64,
    random_steps=500,
    target_period=50,
    encoder_learning_rate=1e-3,
    value_learning_rate=1e-3,
    policy_learning_rate=1e-3,
)


def returns(agent, environment, episodes):
    """Plays episodes as a user does, and returns the return of each."""
    found = []
    for seed in range(episodes):
        observation, info = environment.reset(seed=10_000 + seed)
        state, over = None, False
        found.append(0.0)
        while not over:
            mask = info.get("action_mask")
            action, state = agent.predict(observation, state, deterministic=True, action_masks=mask)
            observation, reward, terminated, truncated, info = environment.step(action)
            found[-1] += reward
            over = terminated or truncated
    return np.array(found)


def test_a_hybrid_action_is_learned():
    agent = MRQ(HybridTarget, hyperparameters=FAST)
    before = returns(agent, HybridTarget(), 60)
    agent.learn(1_500)
    after = returns(agent, HybridTarget(), 60)
    assert before.mean() < -0.8
    assert after.mean() > -0.2
    assert after.min() > -0.7, "the right tool each time"


def test_the_best_allowed_option_is_learned():
    environment = Ranking()
    agent = MRQ(Ranking, hyperparameters=FAST)
    before = -returns(agent, environment, 40).sum() + environment.best
    agent.learn(1_500)
    environment.best = 0.0
    after = -returns(agent, environment, 40).sum() + environment.best
    assert before > 20
    assert after < 3


@pytest.mark.parametrize(("history", "least", "most"), [(4, 0.9, 1.0), (1, -0.5, 0.5)])
def test_what_was_seen_earlier_is_learned_with_history_alone(history, least, most):
    agent = MRQ(Recall, hyperparameters=FAST, history=history).learn(1_500)
    assert least <= returns(agent, Recall(), 60).mean() <= most
