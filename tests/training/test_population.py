"""Agents in a population do what they do alone, and the updates come when the paper says."""

from contextlib import closing
from copy import deepcopy
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import torch

from mrq import MRQError
from mrq.environments.recipe import Recipe
from mrq.environments.workers import WorkerEnvironments
from mrq.interface import Identity, Spec
from mrq.training.building import build_population
from mrq.training.evaluation import evaluate
from mrq.training.loop import step, update
from mrq.training.population import LossFault
from tests.environments_for_tests import Broken, Counting, Pixels
from tests.training.populations import CPU, FLEETS, KINDS, advance, assert_alike, assert_equal, fleet, never, population


@KINDS
def test_each_agent_equals_its_seed_alone(make, steps, small):
    together = population(make, (3, 4, 5), small)
    advance(together, steps)
    for agent, seed in enumerate((3, 4, 5)):
        alone = population(make, (seed,), small)
        advance(alone, steps)
        assert_alike(together.state_of(agent), alone.state_of(0))
    assert not np.array_equal(together.replay.actions[0, :50], together.replay.actions[1, :50])


@FLEETS
@pytest.mark.filterwarnings("ignore:.*out of date")
def test_each_agent_of_a_fleet_equals_its_task_alone(makes, small):
    steps, seeds = 80, tuple(range(len(makes)))
    together = fleet(makes, seeds, small)
    advance(together, steps)
    for agent, make in enumerate(makes):
        alone = population(make, (agent,), small)
        initial = population(make, (agent,), small).learner.agents.state_of(0)
        for name, tensor in fleet(makes, seeds, small).learner.agents.state_of(agent).items():
            assert torch.equal(tensor, initial[name]), name
        advance(alone, steps)
        assert_alike(together.state_of(agent), alone.state_of(0))


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.filterwarnings("ignore:.*out of date")
def test_an_agent_may_leave_its_fleet_and_join_another(small, overlap):
    def make():
        return gym.make("MountainCarContinuous-v0")

    def wide():
        return gym.make("Reacher-v4")  # more actions and observations

    together = fleet((wide, make), (0, 1), small, overlap=overlap)
    straight = population(make, (1,), small, overlap=overlap)
    advance(together, 60)
    others = fleet((lambda: gym.make("Pendulum-v1"), Counting), (5, 6), small, overlap=overlap)
    advance(others, 60)
    moved = fleet((make, lambda: gym.make("Pendulum-v1")), (1, 5), small, overlap=overlap)
    assert moved.load_state_of(1, others.state_of(0)) is None
    assert moved.load_state_of(0, together.state_of(1)) is None
    for agents, steps in ((moved, 15), (straight, 75)):
        advance(agents, steps)
    assert_alike(moved.state_of(0), straight.state_of(0))


@pytest.mark.parametrize("overlap", [False, True])
def test_an_episode_may_be_left_at_any_step(small, overlap):
    agents = population(lambda: gym.make("Pendulum-v1"), (0, 1), small, overlap=overlap)
    advance(agents, 60)
    agents.begin_anew(0)
    step(agents)
    assert agents.replay.episode_steps.tolist() == [1, 61]


def test_overlap_chooses_each_action_one_update_earlier(small):
    exact, ahead = (population(lambda: gym.make("Pendulum-v1"), (0,), small, overlap=o) for o in (False, True))
    for agents in (exact, ahead):
        advance(agents, small.random_steps)
        assert agents.learner.updates == 0
    taken = []
    for agents in (exact, ahead):
        step(agents)  # the first that the policy chooses; nothing has been learned yet
        taken.append(agents.replay.actions[0, small.random_steps].item())
    assert taken[0] == taken[1]
    chosen = ahead.acting.actions().copy()  # before the update that follows
    for agents in (exact, ahead):
        update(agents, never)
        step(agents)
    second = [agents.replay.actions[0, small.random_steps + 1].item() for agents in (exact, ahead)]
    assert second[1] == chosen.item()
    assert second[0] != second[1]


def test_with_overlap_the_targets_play_a_third_of_each_period(small):
    agents = population(lambda: gym.make("Pendulum-v1"), (0,), small, overlap=True)
    advance(agents, small.random_steps + small.target_period)
    step(agents)  # the next period's first
    before, explore, by_targets = deepcopy(agents.learner.agents.networks), agents.learner.agents.explore, []

    def watched(networks, states, noise):
        by_targets.append(networks is agents.learner.agents.targets)
        return explore(networks, states, noise)

    agents.learner.agents.explore = watched
    update(agents, never)
    advance(agents, small.target_period - 1)
    step(agents)
    led = small.target_period // 3 - 1  # its first step was chosen before, too
    assert by_targets == [True] * led + [False] * (small.target_period - led)
    for network, parameters in agents.learner.agents.targets.items():
        for name, tensor in parameters.items():
            assert torch.equal(tensor, before[network][name]), (network, name)


def test_without_encoder_updates_nothing_is_played_by_the_targets(small):
    agents = population(lambda: gym.make("Pendulum-v1"), (0,), replace(small, model_based=False), overlap=True)
    explore, own = agents.learner.agents.explore, []

    def watched(networks, states, noise):
        own.append(networks is agents.learner.agents.networks)
        return explore(networks, states, noise)

    agents.learner.agents.explore = watched
    advance(agents, small.random_steps + small.target_period)
    assert own == [True] * (small.target_period + 1)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(
    "make", [Counting, Pixels, pytest.param(lambda: Pixels(episode_steps=7), marks=pytest.mark.slow)]
)
def test_actions_are_chosen_for_what_the_replay_holds_last(make, small, overlap):
    agents = population(make, (0, 1), small, overlap=overlap)
    explore, calls = agents.learner.agents.explore, []

    def watched(networks, states, noise):
        for agent in range(2):
            held = agents.replay.present_states(agent)[0]
            np.testing.assert_array_equal(states[agent, 0].numpy().reshape(held.shape), held)
        calls.append(agents.steps)
        return explore(networks, states, noise)

    agents.learner.agents.explore = watched
    advance(agents, 62)
    assert len(calls) == 12 + overlap


@pytest.mark.parametrize("stop", [51, 53, 56, 61])  # as a period begins, while the targets play, and after that
@pytest.mark.parametrize(
    ("make", "end"), [(lambda: gym.make("Pendulum-v1"), 75), pytest.param(Pixels, 64, marks=pytest.mark.slow)]
)
def test_a_resumed_agent_continues_as_if_it_had_not_stopped(make, end, small, stop):
    plain, stopped, resumed = (population(make, (0,), small, overlap=True) for _ in range(3))
    advance(plain, end)
    advance(stopped, stop)
    assert resumed.load_state_of(0, stopped.state_of(0)) is None
    advance(resumed, end - stop)
    assert_equal(resumed.state_of(0), plain.state_of(0))


def test_the_others_continue_without_an_agent_that_fails(small):
    def make(fault):
        return lambda: Broken(fault)

    agents = fleet((make("none"), make("raises"), make("none")), (0, 1, 2), small)
    told, saved = [], []
    agents.on_fault = lambda agent, fault: (told.append((agent, str(fault))), saved.append(agents.state_of(agent)[2]))
    advance(agents, 70)
    assert [agent for agent, _ in told] == [1]
    assert "failed at step 29: it raised ZeroDivisionError" in told[0][1]
    assert saved[0]["steps"] == 29
    alone = population(make("none"), (2,), small)
    advance(alone, 70)
    assert_alike(agents.state_of(2), alone.state_of(0))


def in_one_process(tasks, copies=1):
    """Returns workers that share a process, so that they crash together."""
    tasks = [task for task in tasks for _ in range(copies)]
    specs = [{"Pendulum-v1": Spec(numbers=3, continuous=1)}.get(task, Spec(numbers=2, continuous=1)) for task in tasks]
    names = [f"{task} (seed {seed})" for seed, task in enumerate(tasks)]
    return WorkerEnvironments(list(map(Recipe, tasks)), names, specs, [1.0] * len(tasks), processes=1, timeout=30.0)


def test_a_crash_in_a_shared_process_costs_the_others_nothing(small):
    with closing(in_one_process(["tests.environments_for_tests:exits", "Pendulum-v1"])) as workers:
        agents, told = build_population([Identity("task", 0), Identity("task", 1)], workers, small, CPU), []
        agents.expect(200)
        agents.on_fault = lambda agent, fault: told.append((agent, str(fault)))
        advance(agents, 75)
        assert [agent for agent, _ in told] == [0]
        assert "failed at step 4: its process ended with exit code 3" in told[0][1]
        alone = population(lambda: gym.make("Pendulum-v1"), (1,), small)
        advance(alone, 75)
        assert_alike(agents.state_of(1), alone.state_of(0))


def test_a_crash_in_evaluation_costs_the_others_nothing(small):
    with closing(in_one_process(["tests.environments_for_tests:exits", "Pendulum-v1"], copies=2)) as workers:
        identities = [Identity("task", 0), Identity("task", 1)]
        learner = fleet(
            (lambda: gym.make("MountainCarContinuous-v0"), lambda: gym.make("Pendulum-v1")), (0, 1), small
        ).learner
        (broken, healthy), failed = evaluate(learner, workers, identities, step=0, episodes=2)
        assert broken.returns == []
        assert list(failed) == [0]
        assert healthy.lengths == [200, 200]
    alone = population(lambda: gym.make("Pendulum-v1"), (1,), small)
    (evaluation,), _ = evaluate(alone.learner, alone.environments, alone.identities, step=0, episodes=2)
    assert evaluation.returns == pytest.approx(healthy.returns, rel=1e-3)


def test_the_schedule(small):
    agents = population(lambda: gym.make("Pendulum-v1"), (0,), small)
    synced = []
    agents.learner.agents.sync_targets = lambda scale: synced.append((agents.learner.updates, scale.item()))
    advance(agents, small.random_steps)
    assert (agents.learner.encoder_updates, agents.learner.updates, synced) == (0, 0, [])
    advance(agents, 1)  # the first update brings the whole period's encoder updates before it
    assert (agents.learner.encoder_updates, agents.learner.updates) == (20, 1)
    rewards = agents.replay.rewards[0, : small.random_steps + 1]
    assert synced == [(0, pytest.approx(rewards.abs().mean().item()))]
    advance(agents, 19)
    assert (agents.learner.encoder_updates, agents.learner.updates) == (20, 20)
    advance(agents, 1)
    assert (agents.learner.encoder_updates, agents.learner.updates) == (40, 21)
    assert [updates for updates, _ in synced] == [0, 20]


def test_priorities_do_not_change_during_the_burst(small):
    agents = population(lambda: gym.make("Pendulum-v1"), (0,), small)
    advance(agents, small.random_steps)
    step(agents)
    before = agents.replay.priorities.values.clone()
    interrupted = iter([False, True])
    update(agents, lambda: next(interrupted))
    assert (agents.learner.encoder_updates, agents.learner.updates) == (10, 0)
    assert torch.equal(before, agents.replay.priorities.values)
    update(agents, never)
    assert not torch.equal(before, agents.replay.priorities.values)


def test_actions_are_random_at_first_and_the_policys_afterwards(small):
    agents = population(lambda: gym.make("Pendulum-v1"), (0,), small)
    advance(agents, small.random_steps)
    with torch.no_grad():
        agents.learner.agents.networks["policy"]["linear2.weight"].zero_()
        agents.learner.agents.networks["policy"]["linear2.bias"].fill_(10.0)  # tanh(10) is 1
    for _ in range(40):
        step(agents)
    actions = agents.replay.actions[0, :90, 0]
    assert actions[:50].min() < -0.8
    assert actions[50:].min() > 0.2  # 1 with noise of 0.2
    assert actions[50:].max() == 1.0


def test_an_interrupted_burst_changes_nothing(small):
    plain, interrupted = (population(lambda: gym.make("Pendulum-v1"), (0,), small) for _ in range(2))
    advance(plain, 60)
    for _ in range(60):
        step(interrupted)
        while interrupted.learner.updates < interrupted.steps - small.random_steps:
            answers = iter([False, True])  # one chunk of encoder updates at a time
            update(interrupted, lambda answers=answers: next(answers, True))
    for name, tensor in plain.state_of(0)[0].items():
        assert torch.equal(tensor, interrupted.state_of(0)[0][name]), name


def test_a_nan_loss_is_named_with_its_step(small):
    agents = population(lambda: gym.make("Pendulum-v1"), (0, 1), small)
    advance(agents, small.random_steps + 3)
    with torch.no_grad():
        agents.learner.agents.networks["value"]["head.bias"][1] = float("nan")
    with pytest.raises(LossFault, match=r"seed 1\): the value loss became nan at step 54"):
        advance(agents, 1)


def test_episodes_too_short_to_learn_from(small):
    agents = population(lambda: Counting(lengths=(4,), ends=("truncated",)), (0,), small)
    with pytest.raises(MRQError, match="truncated before its 5th step"):
        advance(agents, small.random_steps + 1)


def test_an_environment_that_cannot_be_brought_back_begins_a_new_episode(small):
    agents = population(Counting, (0,), small)  # its first observation counts its resets
    advance(agents, 8)
    state = agents.state_of(0)
    again = population(Counting, (0,), small)
    again.environments.environments[0].environment.episode = 40
    sentence = again.load_state_of(0, state)
    assert "the episode could not be brought back to where it was; a new one begins" in sentence
    step(again)
    assert again.replay.episode_steps[0] == 1


def test_without_lap_every_state_is_as_likely_as_any_other(small):
    plain, uniform = (
        population(lambda: gym.make("Pendulum-v1"), (0,), replace(small, prioritised=prioritised))
        for prioritised in (True, False)
    )
    for agents in (plain, uniform):
        advance(agents, 120)
    assert set(uniform.replay.priorities.values.unique().tolist()) == {0, 1}
    assert len(plain.replay.priorities.values.unique()) > 2


def test_without_a_model_the_encoder_follows_the_value_and_the_targets_still_wait(small):
    agents = population(lambda: gym.make("Pendulum-v1"), (0,), replace(small, model_based=False))
    encoder, target = (
        kind["encoder"]["f.linear0.weight"] for kind in (agents.learner.agents.networks, agents.learner.agents.targets)
    )
    first = encoder.clone()
    advance(agents, small.random_steps + 1)
    assert torch.equal(target, first)
    assert not torch.equal(encoder, first)  # by the first RL update
    advance(agents, small.target_period)
    assert agents.learner.encoder_updates == 2 * small.target_period
    assert not torch.equal(target, first)
    before = agents.learner.agents.state_of(0)
    assert before["steps.encoder"] == before["steps.value"] == small.target_period + 1
    assert agents.learner.metrics["dynamics_loss"] == 0
