"""Whole trainings equal MR.Q written plainly: windows, masks, priorities, losses, schedule, optimisers, all at once."""

from dataclasses import replace

import gymnasium as gym
import pytest
import torch

from tests.plain_mrq import PlainMRQ
from tests.training.populations import advance, population


@pytest.mark.parametrize(
    ("task", "to_environment"),
    [("Pendulum-v1", lambda action: 2 * action), ("CartPole-v1", lambda action: int(action.argmax()))],
    ids=["box, truncated", "discrete, terminated"],
)
def test_training_equals_mrq_written_plainly(task, to_environment, small):
    h, steps, seed = replace(small, replay_capacity=100), 130, 3  # so that the ring wraps

    def make():
        return gym.make(task, max_episode_steps=30)

    agents = population(make, (seed,), h, steps)
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
