"""Evaluations play the right episodes, and each agent's are its own."""

import gymnasium as gym
import numpy as np
import torch

from mrq.algorithms.algorithm import Learner
from mrq.environments import tasks
from mrq.environments.checked import CheckedEnvironment
from mrq.environments.local import LocalEnvironments
from mrq.interface import Identity
from mrq.training.building import build_population
from mrq.training.evaluation import evaluate
from tests.environments_for_tests import Broken, Counting

CPU = torch.device("cpu")


def agents(*seeds, task="task"):
    return [Identity(task, seed) for seed in seeds]


def environments(make, count):
    return LocalEnvironments([CheckedEnvironment(make()) for _ in range(count)], ["task"] * count)


def learner_for(some, small, seeds):
    own = LocalEnvironments(some.environments[: len(seeds)], some.names[: len(seeds)])
    return build_population(agents(*seeds), own, small, CPU).learner


def evaluated(*arguments, **options):
    """Returns the evaluations, where no environment fails."""
    evaluations, failed = evaluate(*arguments, **options)
    assert not failed
    return evaluations


def test_returns_and_lengths_by_arithmetic(small):
    both = environments(lambda: Counting(lengths=(3, 5)), 2)
    both.environments[1].environment.lengths = (4,)
    results = evaluated(learner_for(both, small, (0, 1)), both, agents(0, 1), step=0, episodes=3)
    assert results[0].lengths == [3, 5, 3]
    assert results[0].returns == [0 + 1 + 2, 100 + 101 + 102 + 103 + 104, 200 + 201 + 202]
    assert results[1].lengths == [4, 4, 4]
    assert results[0].mean == np.mean([3, 510, 603])
    assert results[0].mean_length == np.mean([3, 5, 3])


def test_an_agent_is_evaluated_among_others_as_alone_and_each_episode_differs(small):
    together = environments(lambda: gym.make("CartPole-v1"), 3)
    results = evaluated(learner_for(together, small, (5, 6, 7)), together, agents(5, 6, 7), step=10, episodes=4)
    for agent, seed in enumerate((5, 6, 7)):
        alone = environments(lambda: gym.make("CartPole-v1"), 1)
        own = evaluated(learner_for(alone, small, (seed,)), alone, agents(seed), step=10, episodes=4)
        assert own[0] == results[agent]
    pendulum = environments(lambda: gym.make("Pendulum-v1"), 2)
    learner = learner_for(pendulum, small, (0, 0))
    first, second = evaluated(learner, pendulum, agents(0, 1), step=10, episodes=3)
    assert len({*first.returns, *second.returns}) == 6, "every episode starts elsewhere"
    assert evaluated(learner, pendulum, agents(0, 1), step=10, episodes=3) == [first, second]
    assert evaluated(learner, pendulum, agents(0, 1), step=20, episodes=3) != [first, second]


def test_episodes_are_the_same_however_many_are_played_at_once(small):
    one, three = (environments(lambda: gym.make("CartPole-v1"), 2 * copies) for copies in (1, 3))
    learner = learner_for(one, small, (5, 6))
    alone = evaluated(learner, one, agents(5, 6), step=10, episodes=7)
    assert evaluated(learner, three, agents(5, 6), step=10, episodes=7) == alone
    assert evaluated(learner, three, agents(5, 6), step=10, episodes=3)[0].returns == alone[0].returns[:3]


def test_dropped_agents_are_not_evaluated_and_a_fault_stops_one_agent_alone(small):
    some = environments(lambda: Broken("none"), 6)  # three agents, two environments each
    some.environments[3].environment.fault = "raises"
    for checked in some.environments:
        checked.environment.lengths = (40,)
    learner, active = learner_for(some, small, (0, 1, 2)), np.array([True, True, False])
    results, failed = evaluate(learner, some, agents(0, 1, 2), step=0, episodes=2, active=active)
    assert [len(result.returns) for result in results] == [2, 0, 0]
    assert list(failed) == [1]
    assert "failed at step 0: it raised ZeroDivisionError" in failed[1]


class Counter(Learner):
    """Carries how many actions it chose in an episode, and records what it saw and carried."""

    device = CPU

    def __init__(self, agents):
        self.agents, self.seen, self.carried = agents, [], []

    def carries(self, count):
        return {"actions": torch.zeros(self.agents, count)}

    def act(self, states, generators, carried):
        self.seen.append(states[0, 0].clone())
        self.carried.append(carried["actions"].tolist())
        carried["actions"] += 1
        return torch.zeros(*states.shape[:2], 1)


def test_frames_are_stacked_as_in_training():
    class Numbered(Counting):
        def __init__(self):
            super().__init__(lengths=(5,))
            self.observation_space = gym.spaces.Box(0, 255, (84, 84), np.uint8)

        def _observation(self):
            return np.full((84, 84), 10 * self.episode + self.step_count, np.uint8)

    one, counter = environments(Numbered, 1), Counter(1)
    evaluate(counter, one, agents(0), step=0, episodes=2)
    seen = [state[:, 0, 0].tolist() for state in counter.seen]
    assert seen[:5] == [[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 2], [0, 1, 2, 3], [1, 2, 3, 4]]
    assert seen[5:7] == [[10, 10, 10, 10], [10, 10, 10, 11]]


def test_what_is_carried_begins_at_zero_in_every_episode():
    some, counter = environments(lambda: Counting(lengths=(3,)), 4), Counter(2)  # two agents, two environments each
    some.environments[1].environment.lengths = (2,)
    evaluate(counter, some, agents(0, 1), step=0, episodes=4)
    assert counter.carried == [
        [[0, 0], [0, 0]],
        [[1, 1], [1, 1]],
        [[2, 0], [2, 2]],
        [[0, 1], [0, 0]],
        [[1, 2], [1, 1]],  # the second environment of the first agent has played its two episodes
        [[2, 3], [2, 2]],
    ]


def test_an_interruption_ends_it_without_a_result(small):
    one = environments(Counting, 1)
    assert evaluate(learner_for(one, small, (0,)), one, agents(0), 0, 5, interrupted=lambda: True) is None


def test_atari_is_evaluated_with_a_random_action_now_and_then(small, monkeypatch):
    assert tasks.protocol_of("atari/Pong").random_action == 0.001
    assert tasks.protocol_of("dmc/walker-walk").random_action == 0
    monkeypatch.setitem(tasks.PROTOCOLS, "atari", tasks.Protocol(1, 1, random_action=0.25))
    taken = []

    class Choosing(Counting):
        def __init__(self):
            super().__init__(lengths=(400,))
            self.action_space = gym.spaces.Discrete(5)

        def step(self, action):
            taken.append(int(action))
            return super().step(action)

    one = environments(Choosing, 1)
    learner = learner_for(one, small, (0,))
    learner.agents.networks["policy"]["linear2.bias"][0, 3] = 1_000  # always the same choice
    evaluate(learner, one, agents(0), step=0, episodes=1)
    assert set(taken) == {3}
    taken.clear()
    evaluate(learner, one, agents(0, task="atari/Choosing"), step=0, episodes=1)
    others = 1 - taken.count(3) / len(taken)
    assert 0.13 < others < 0.27  # a fifth of a quarter's random choices are the policy's own: 0.2, standard error 0.02
    assert set(taken) == {0, 1, 2, 3, 4}
    taken.clear()
    evaluate(learner, one, agents(0, task="atari/Choosing"), step=0, episodes=1, deterministic=True)
    assert set(taken) == {3}


def test_random_actions_are_an_agents_own_however_many_episodes_are_played_at_once(small, monkeypatch):
    monkeypatch.setitem(tasks.PROTOCOLS, "atari", tasks.Protocol(1, 1, random_action=0.5))
    one, two = (environments(lambda: gym.make("CartPole-v1"), 2 * copies) for copies in (1, 2))
    learner = learner_for(one, small, (5, 6))
    plain = evaluated(learner, one, agents(5, 6), step=10, episodes=4)
    mixed = [Identity("task", 5), Identity("atari/CartPole", 6)]
    played = evaluated(learner, one, mixed, step=10, episodes=4)
    assert played[0] == plain[0]
    assert played[1] != plain[1]
    assert evaluated(learner, two, mixed, step=10, episodes=4) == played
