"""DrQ-v2 in training: its schedule, its populations, and how it continues."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from mrq import MRQError
from mrq.environments.checked import CheckedEnvironment
from mrq.environments.local import LocalEnvironments
from mrq.interface import Identity
from mrq.training.building import build_population
from mrq.training.evaluation import evaluate
from mrq.training.loop import step, update
from tests.algorithms.drqv2.pixels import SMALL, MovingColumn, column
from tests.environments_for_tests import Counting, Pixels
from tests.training.populations import (
    CPU,
    advance,
    assert_alike,
    assert_equal,
    fleet,
    never,
    population,
)


@pytest.mark.parametrize("update_every", [1, 2, 3])
def test_the_first_random_step_after_which_it_learns_and_how_often_it_does(update_every):
    agents = population(MovingColumn, (0,), replace(SMALL, update_every=update_every))
    done, values = [], []
    for _ in range(20):
        advance(agents, 1)
        done.append(agents.learner.updates)
        values.append(agents.learner.metrics["exploration_std"].item())
    # Twelve random steps; the first update follows the 13th step, whose number, from 0, is 12.
    assert done == [0] * 12 + [1 + place // update_every for place in range(8)]
    last = 12 + 7 // update_every * update_every
    assert values[-1] == pytest.approx(1 - 0.9 * last / 40)


def test_random_actions_come_before_the_actors(monkeypatch):
    agents = population(MovingColumn, (0, 1), SMALL)
    explored = []
    explore = agents.learner.agents.explore

    def watched(states, noise, step):
        explored.append(int(step))
        return explore(states, noise, step)

    monkeypatch.setattr(agents.learner.agents, "explore", watched)
    advance(agents, 16)
    assert explored == [12, 13, 14, 15]
    actions = agents.replay.actions[:, :13]  # the first episode's seven, its end, and five of the next
    assert actions.abs().max() <= 1
    assert len(actions[:, :7].unique()) == 14


def test_updates_stop_where_they_are_interrupted_and_all_that_are_owed_are_done_later():
    agents = population(MovingColumn, (0,), SMALL)
    answers = iter([False, False, True])
    for _ in range(20):
        step(agents)
    agents.learner.update(agents.steps, lambda: next(answers))
    assert agents.learner.updates == 2
    agents.learner.update(agents.steps, never)
    assert agents.learner.updates == 4
    straight = population(MovingColumn, (0,), SMALL)
    for _ in range(20):
        step(straight)
    update(straight, never)
    assert_equal(agents.state_of(0), straight.state_of(0))


def test_each_agent_equals_its_seed_alone():
    together = population(MovingColumn, (3, 4), SMALL)
    advance(together, 20)
    for agent, seed in enumerate((3, 4)):
        alone = population(MovingColumn, (seed,), SMALL)
        advance(alone, 20)
        assert_alike(together.state_of(agent), alone.state_of(0))
    assert not np.array_equal(together.replay.actions[0, :20], together.replay.actions[1, :20])


def test_each_agent_of_a_fleet_equals_its_task_alone():
    makes = (MovingColumn, partial(MovingColumn, actions=3))
    together = fleet(makes, (0, 1), SMALL)
    advance(together, 20)
    for agent, make in enumerate(makes):
        alone = population(make, (agent,), SMALL)
        advance(alone, 20)
        assert_alike(together.state_of(agent), alone.state_of(0))


def test_tasks_of_a_fleet_explore_by_their_own_difficulty():
    tasks = ("dmc-visual/walker-walk", "dmc-visual/humanoid-run", "dmc-visual/cheetah-run")
    environments = LocalEnvironments([CheckedEnvironment(MovingColumn()) for _ in tasks], tasks)
    identities = [Identity(task, seed=0) for task in tasks]
    agents = build_population(identities, environments, replace(SMALL, exploration_decay=0), CPU)
    agents.expect(20)
    advance(agents, 13)
    expected = [1 - 0.9 * 12 / decay for decay in (100_000, 2_000_000, 500_000)]
    assert agents.learner.metrics["exploration_std"].tolist() == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("overlap", [False, True])
def test_a_state_that_is_loaded_continues_exactly(overlap):
    straight, first, second = (population(MovingColumn, (0,), SMALL, overlap=overlap) for _ in range(3))
    advance(straight, 24)
    advance(first, 17)
    assert second.load_state_of(0, first.state_of(0)) is None
    advance(second, 7)
    assert_equal(second.state_of(0), straight.state_of(0))


def test_metrics_have_names_and_are_finite():
    agents = population(MovingColumn, (0, 1), SMALL)
    advance(agents, 14)
    metrics = agents.learner.metrics
    assert list(metrics) == ["critic_loss", "value_mean", "actor_loss", "exploration_std"]
    assert all(metric.shape == (2,) and metric.isfinite().all() for metric in metrics.values())


def test_evaluations_are_deterministic():
    agents = population(MovingColumn, (0,), SMALL)
    advance(agents, 14)

    def returns():
        environments = LocalEnvironments([CheckedEnvironment(MovingColumn())], ["an evaluation"])
        evaluations, _ = evaluate(agents.learner, environments, agents.identities, 14, episodes=1)
        return evaluations[0].returns

    assert returns() == returns()


@pytest.mark.parametrize(
    ("make", "obstacle"), [(Counting, "whose observations are vectors"), (Pixels, "whose actions are discrete")]
)
def test_tasks_that_it_cannot_learn_are_refused(make, obstacle):
    with pytest.raises(MRQError, match=f"DrQ-v2 cannot learn task, {obstacle}; give tasks that it can."):
        population(make, (0,), SMALL)


def test_it_learns():
    h = replace(SMALL, batch_size=12, hidden_width=32, feature_size=10, learning_rate=2e-3, discount=0.5)
    agents = population(MovingColumn, (0,), replace(h, random_steps=50, update_every=1, exploration_decay=100))
    advance(agents, 90)
    frames = np.stack([column(place) for place in (0.1, 0.3, 0.5, 0.7, 0.9)])
    states = torch.from_numpy(frames)[None, :, None].repeat(1, 1, agents.environments.spec.history, 1, 1)
    assert (agents.learner.act(states, None, {}) > 0.5).all()  # to the right, where the reward is
