"""Whole trainings equal MR.Q written plainly: windows, masks, priorities, losses, schedule, optimisers, all at once."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.wrappers import FlattenObservation

from tests.environments_for_tests import HybridTarget, Masked
from tests.plain_mrq import PlainMRQ
from tests.training.populations import advance, population


def hybrid_action(action):
    return {"move": 5 * (action[:1] + 1), "tool": int(action[1:].argmax()) + 1}


@pytest.mark.parametrize(
    ("environment", "to_environment"),
    [
        (lambda: gym.make("Pendulum-v1", max_episode_steps=30), lambda action: 2 * action),
        (lambda: gym.make("CartPole-v1", max_episode_steps=30), lambda action: int(action.argmax())),
        (lambda: FlattenObservation(HybridTarget()), hybrid_action),
        (Masked, lambda action: np.array([action[:3].argmax(), action[3:].argmax()])),
    ],
    ids=["box, truncated", "discrete, terminated", "hybrid, terminated", "masked, both"],
)
def test_training_equals_mrq_written_plainly(environment, to_environment, small):
    h, steps, seed = replace(small, replay_capacity=100), 130, 3  # so that the ring wraps

    def make():
        made = environment()
        if isinstance(made, Masked):
            made.episode = 0  # as after the reset that finds out whether there are masks
        return made

    agents = population(environment, (seed,), h, steps)
    learner = agents.learner.agents
    initial = {network: {n: t[0].clone() for n, t in p.items()} for network, p in learner.networks.items()}
    plain = PlainMRQ(make(), to_environment, seed, initial, learner.spec, h)
    plain.train(steps)
    advance(agents, steps)
    assert (agents.learner.updates, agents.learner.encoder_updates) == (80, 80)
    for network, parameters in plain.networks.items():
        for name, tensor in parameters.items():
            assert not torch.equal(tensor, initial[network][name])
            torch.testing.assert_close(learner.networks[network][name][0], tensor.detach(), rtol=1e-4, atol=1e-5)
    assert agents.replay.priorities.highest.item() == pytest.approx(plain.highest, rel=1e-4)
    assert learner.reward_scale.item() == pytest.approx(plain.reward_scale, rel=1e-5)
