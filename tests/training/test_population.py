"""Agents in a population do what they do alone, and the updates come when the paper says."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from mrq import MRQError
from mrq.environments.guarded import Guarded
from mrq.environments.stepping import Environments
from mrq.training.population import LossFault, Population
from tests.environments_for_tests import Counting, Pixels

CPU = torch.device("cpu")


def never() -> bool:
    return False


def population(make, seeds, h, steps=200):
    environments = Environments([Guarded(make()) for _ in seeds], [f"task (seed {seed})" for seed in seeds])
    made = Population(seeds, environments, h, CPU)
    made.make_room(steps)
    return made


def advance(population, steps):
    for _ in range(steps):
        population.step()
        population.update(never)


@pytest.mark.parametrize(
    ("make", "steps"),
    [(lambda: gym.make("Pendulum-v1"), 110), (lambda: gym.make("CartPole-v1"), 110), (Pixels, 62)],
    ids=["box", "discrete", "pixels"],
)
def test_each_agent_equals_its_seed_alone(make, steps, small):
    together = population(make, (3, 4, 5), small)
    advance(together, steps)
    for agent, seed in enumerate((3, 4, 5)):
        alone = population(make, (seed,), small)
        advance(alone, steps)
        (tensors, arrays, counters), (own, own_arrays, own_counters) = together.state_of(agent), alone.state_of(0)
        assert counters.pop("episode_return") == pytest.approx(own_counters.pop("episode_return"), rel=1e-4)
        assert counters == own_counters
        np.testing.assert_allclose(arrays["frames"], own_arrays["frames"], rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(arrays["priorities"], own_arrays["priorities"], rtol=1e-3)
        for name in tensors:
            torch.testing.assert_close(tensors[name], own[name], rtol=1e-2, atol=2e-4, msg=lambda m, n=name: n + m)
    assert not np.array_equal(together.replay.frames[0, :50], together.replay.frames[1, :50])


def test_the_schedule(small):
    agents = population(lambda: gym.make("Pendulum-v1"), (0,), small)
    synced = []
    agents.learner.sync_targets = lambda scale: synced.append((agents.updates, scale.item()))
    advance(agents, small.random_steps)
    assert (agents.encoder_updates, agents.updates, synced) == (0, 0, [])
    advance(agents, 1)  # the first update brings the whole period's encoder updates before it
    assert (agents.encoder_updates, agents.updates) == (20, 1)
    rewards = agents.replay.rewards[0, : small.random_steps + 1]
    assert synced == [(0, pytest.approx(rewards.abs().mean().item()))]
    advance(agents, 19)
    assert (agents.encoder_updates, agents.updates) == (20, 20)
    advance(agents, 1)
    assert (agents.encoder_updates, agents.updates) == (40, 21)
    assert [updates for updates, _ in synced] == [0, 20]


def test_priorities_do_not_change_during_the_burst(small):
    agents = population(lambda: gym.make("Pendulum-v1"), (0,), small)
    advance(agents, small.random_steps)
    agents.step()
    before = agents.replay.priorities.values.clone()
    interrupted = iter([False, True])
    agents.update(lambda: next(interrupted))
    assert (agents.encoder_updates, agents.updates) == (10, 0)
    assert torch.equal(before, agents.replay.priorities.values)
    agents.update(never)
    assert not torch.equal(before, agents.replay.priorities.values)


def test_actions_are_random_at_first_and_the_policys_afterwards(small):
    agents = population(lambda: gym.make("Pendulum-v1"), (0,), small)
    advance(agents, small.random_steps)
    with torch.no_grad():
        agents.learner.networks["policy"]["linear2.weight"].zero_()
        agents.learner.networks["policy"]["linear2.bias"].fill_(10.0)  # tanh(10) is 1
    for _ in range(40):
        agents.step()
    actions = agents.replay.actions[0, :90, 0]
    assert actions[:50].min() < -0.8
    assert actions[50:].min() > 0.2  # 1 with noise of 0.2
    assert actions[50:].max() == 1.0


def test_interrupting_the_burst_changes_nothing(small):
    plain, broken_off = (population(lambda: gym.make("Pendulum-v1"), (0,), small) for _ in range(2))
    advance(plain, 60)
    for _ in range(60):
        broken_off.step()
        while broken_off.updates < broken_off.steps - small.random_steps:
            answers = iter([False, True])  # one chunk of encoder updates at a time
            broken_off.update(lambda answers=answers: next(answers, True))
    for name, tensor in plain.state_of(0)[0].items():
        assert torch.equal(tensor, broken_off.state_of(0)[0][name]), name


def test_a_loss_that_is_not_a_number_is_named_with_its_step(small):
    agents = population(lambda: gym.make("Pendulum-v1"), (0, 1), small)
    advance(agents, small.random_steps + 3)
    with torch.no_grad():
        agents.learner.networks["value"]["linear3.bias"][1] = float("nan")
    with pytest.raises(LossFault, match=r"seed 1\): the value loss became nan at step 54"):
        advance(agents, 1)


def test_episodes_too_short_to_learn_from(small):
    agents = population(lambda: Counting(lengths=(4,), ends=("truncated",)), (0,), small)
    with pytest.raises(MRQError, match="truncated before its 5th step"):
        advance(agents, small.random_steps + 1)


def test_an_environment_that_cannot_be_brought_back_begins_anew(small):
    agents = population(Counting, (0,), small)  # its first observation counts its resets
    advance(agents, 8)
    state = agents.state_of(0)
    again = population(Counting, (0,), small)
    again.environments.environments[0].environment.episode = 40
    sentence = again.load_state_of(0, *state)
    assert "did not lead to the same observation" in sentence
    again.step()
    assert again.replay.episode_steps[0] == 1
