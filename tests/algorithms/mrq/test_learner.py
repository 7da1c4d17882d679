"""MR.Q behind the protocol: which updates follow which steps, who chooses actions, and what is saved."""

import gc
import weakref

import numpy as np
import pytest
import torch

from mrq.algorithms.algorithm import Setup
from mrq.algorithms.mrq import MRQ
from mrq.algorithms.mrq.noise import acting_noise
from mrq.execution import Exchange
from mrq.interface import Identity, Spec, Transitions, common_spec
from mrq.randomness import Stream, generator
from mrq.replay.buffer import Replay

CPU = torch.device("cpu")
EPISODE_STEPS = 60


def make(h, specs, seeds=None, overlap=False):
    """Makes a learner whose replay holds one episode of noise per agent, and whose agents see the episode's end."""
    seeds, spec = seeds or range(len(specs)), common_spec(specs)
    replay = Replay(specs, h.replay, 100, CPU)
    identities = [Identity("noise", seed) for seed in seeds]
    exchange = Exchange(CPU, (len(specs), 1, 1, *spec.frame_shape), torch.float32, (len(specs), 1, spec.action_size))
    generators = [np.random.default_rng(100 + seed) for seed in seeds]

    def drawn(sizes, width):
        rows = [g.normal(size=size).astype(np.float32) for g, size in zip(generators, sizes, strict=True)]
        return np.stack([np.pad(row, (0, width - len(row))) for row in rows])

    def frames():
        return drawn([spec.frame_shape[0] for spec in specs], spec.frame_shape[0])

    replay.begin(np.ones(len(specs), bool), frames())
    for step in range(EPISODE_STEPS):
        actions = np.tanh(drawn([spec.action_size for spec in specs], spec.action_size))
        none, last = np.zeros(len(specs), bool), np.full(len(specs), step + 1 == EPISODE_STEPS)
        replay.append(Transitions(actions, drawn([1] * len(specs), 1)[:, 0], last, none, frames()))
    for agent in range(len(specs)):
        exchange.observations[agent] = torch.from_numpy(replay.present_states(agent))
    learner = MRQ.learner(Setup(identities, specs, h, replay, exchange, CPU, torch.float32, overlap, copies=1))
    return learner, replay, exchange


def never():
    return False


def assert_same_state(ours, theirs, agents=1):
    for agent in range(agents):
        (tensors, counters), (others, other_counters) = ours.state_of(agent), theirs.state_of(agent)
        assert counters == other_counters
        for name, tensor in tensors.items():
            assert torch.equal(tensor, others[name]), name


def test_each_step_after_the_random_ones_calls_for_an_update_and_each_period_for_its_encoder_updates(small, spec):
    learner, _, _ = make(small, [spec])
    done = []
    for steps in (0, 50, 51, 70, 71, 90, 91, 130):
        learner.update(steps, never)
        done.append((learner.encoder_updates, learner.updates))
    assert done == [(0, 0), (0, 0), (20, 1), (20, 20), (40, 21), (40, 40), (60, 41), (80, 80)]


def test_updates_done_late_or_in_parts_equal_those_done_at_each_step(small, spec):
    (prompt, _, _), (late, _, _), (in_parts, replay, _) = (make(small, [spec]) for _ in range(3))
    for steps in range(50, 96):
        prompt.update(steps, never)
    late.update(95, never)
    before = replay.priorities.values.clone()
    in_parts.update(95, lambda: True)
    assert (in_parts.encoder_updates, in_parts.updates) == (0, 0)
    answers = iter([False, True])
    in_parts.update(95, lambda: next(answers))
    assert (in_parts.encoder_updates, in_parts.updates) == (10, 0)
    assert torch.equal(before, replay.priorities.values), "priorities do not change between encoder updates"
    while in_parts.updates < 45:
        answers = iter([False, True])
        in_parts.update(95, lambda answers=answers: next(answers))
    assert not torch.equal(before, replay.priorities.values)
    assert_same_state(late, prompt)
    assert_same_state(in_parts, prompt)


@pytest.mark.parametrize("overlap", [False, True])
def test_actions_are_random_at_first_and_later_those_of_the_networks_or_of_their_targets(overlap, small, spec):
    learner, _, exchange = make(small, [spec] * 2, seeds=(3, 4), overlap=overlap)
    learner.update(75, never)  # networks and targets differ
    states = exchange.observations[:, :, 0]
    by_targets = []
    for step in range(100):
        learner.explore(step)
        block, place = divmod(step, small.target_period)
        drawn = [acting_noise(generator(s, Stream.ACTING, block), small.target_period, spec) for s in (3, 4)]
        noise = {name: torch.from_numpy(np.stack([d[name][place] for d in drawn]))[:, None] for name in drawn[0]}
        if step < small.random_steps:
            assert torch.equal(exchange.actions, noise["random_actions"])
            continue
        agents = learner.agents
        networks, targets = (agents.explore(n, states, noise) for n in (agents.networks, agents.targets))
        assert not torch.equal(networks, targets)
        by_targets.append(torch.equal(exchange.actions, targets))
        assert torch.equal(exchange.actions, targets if by_targets[-1] else networks)
    # A third of a period of 20 steps, except its first step; the first action by the policy precedes all updates.
    assert np.flatnonzero(by_targets).tolist() == ([2, 3, 4, 5, 6, 22, 23, 24, 25, 26, 42, 43, 44, 45, 46] * overlap)


def test_evaluation_draws_each_states_noise_from_its_own_generator(small):
    specs = [Spec(numbers=3, choices=(2,)), Spec(numbers=3, choices=(4,))]
    learner, _, _ = make(small, specs)
    states = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    plain = learner.act(states, None, {})
    assert torch.equal(plain, learner.act(states, None, {}))
    drawn = learner.act(states, [np.random.default_rng(seed) for seed in range(10)], {})
    assert not torch.equal(drawn, plain)
    assert (drawn.sum(-1) == 1).all()
    assert not drawn[0, :, 2:].any(), "an agent never takes an action that it does not have"
    for agent, place in ((0, 3), (1, 2)):
        generators = [np.random.default_rng(99 if i != 5 * agent + place else i) for i in range(10)]
        assert torch.equal(learner.act(states, generators, {})[agent, place], drawn[agent, place])


def test_a_restored_learner_continues_as_if_it_had_not_stopped(small):
    specs = [Spec(numbers=3, continuous=2), Spec(numbers=5, continuous=1)]
    (plain, replay, _), (restored, other_replay, _) = make(small, specs), make(small, specs)
    for tensor in restored.agents.networks["policy"].values():
        tensor += 1
    plain.update(75, never)
    for agent in range(2):
        restored.load_state_of(agent, *plain.state_of(agent))
        other_replay.load_state_of(agent, *replay.state_of(agent))
    assert (restored.encoder_updates, restored.updates) == (40, 25)
    assert_same_state(restored, plain, agents=2)
    for learner in (plain, restored):
        learner.update(95, never)
    assert_same_state(restored, plain, agents=2)


def test_parameters_are_counted_without_padding(small):
    learner, _, _ = make(small, [Spec(numbers=3, continuous=2), Spec(numbers=5, continuous=1)])

    def count(observation, action):
        f = (observation * 32 + 32) + (32 * 32 + 32) + (32 * 24 + 24)
        g = (action * 16 + 16) + ((24 + 16) * 32 + 32) + (32 * 32 + 32) + (32 * 20 + 20)
        m = 20 * (1 + 24 + 65) + (1 + 24 + 65)
        value = 2 * ((20 * 32 + 32) + 2 * (32 * 32 + 32) + (32 + 1))
        policy = (24 * 32 + 32) + (32 * 32 + 32) + (32 * action + action)
        return f + g + m + value + policy

    assert [learner.parameters_of(agent) for agent in range(2)] == [count(3, 2), count(5, 1)]


def test_metrics_are_one_number_per_agent(small, spec):
    learner, replay, _ = make(small, [spec] * 2)
    learner.update(51, never)
    assert set(learner.metrics) == {
        "dynamics_loss",
        "reward_loss",
        "terminal_loss",
        "value_loss",
        "value_mean",
        "policy_loss",
        "reward_scale",
    }
    for name, values in learner.metrics.items():
        assert values.shape == (2,)
        assert values.isfinite().all()
        assert (values[0] != values[1]).all(), name
    assert torch.equal(learner.metrics["reward_scale"], replay.mean_absolute_reward())


def test_a_learner_that_is_dropped_is_freed_without_the_garbage_collector(small, spec):
    gc.collect()
    gc.disable()
    try:
        learner, replay, exchange = make(small, [spec] * 2)
        learner.update(75, never)
        learner.explore(80)
        kept = (learner, learner.agents, learner.agents.networks["policy"]["linear0.weight"], replay, replay.frames)
        references = [weakref.ref(thing) for thing in kept]
        del learner, replay, exchange, kept
        assert [reference() for reference in references] == [None] * len(references)
    finally:
        gc.enable()
