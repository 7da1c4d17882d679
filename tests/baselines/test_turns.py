"""A library's loop and ours take turns: the library sees each state and outcome once, in order."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from mrq.baselines import stable_learner
from mrq.baselines.stable_baselines import PPODefaults
from mrq.baselines.turns import LibraryThread, Outcome, RemoteEnvironment
from mrq.interface import Spec
from mrq.randomness import environment_seed
from mrq.training.loop import step
from tests.baselines.scripted import Scripted
from tests.environments_for_tests import Counting, Pixels, Target
from tests.training.populations import advance, population
from tests.waiting import soon

VECTOR = Spec(numbers=2, continuous=1)


class Seeded(Counting):
    """Numbers its episodes by their seeds, so that they can be brought back."""

    def reset(self, *, seed=None, options=None):
        self.episode = seed % 1_000 - 1
        return super().reset(seed=seed)


def state(*values):
    return np.array(values, np.float32)


def outcome(*values, reward=0.0, terminated=False, truncated=False):
    return Outcome(state(*values), reward, terminated, truncated)


def test_a_scripted_library_gets_exactly_what_it_asks_for():
    environment = RemoteEnvironment(VECTOR)
    thread, seen = LibraryThread(environment), []

    def learn():
        seen.append(environment.reset(seed=3))
        for action in ("first", "second"):
            seen.append(environment.step(action))
        seen.append(environment.reset())
        seen.append(environment.step("third"))

    assert thread.action(state(1, 2), learn) == "first"
    assert thread.action(state(9, 9), learn) == "first", "its action is asked for twice, and taken once"
    assert thread.wants_outcome
    thread.tell(outcome(3, 4, reward=5.0))
    assert thread.wants_outcome, "it took its next action without another state"
    assert thread.action(state(9, 9), learn) == "second"
    thread.tell(outcome(6, 7, terminated=True))
    assert not thread.wants_outcome
    assert thread.action(state(8, 9), learn) == "third"
    thread.tell(outcome(10, 11, truncated=True))
    assert not thread.wants_outcome
    resets, steps = (seen[0], seen[3]), (seen[1], seen[2], seen[4])
    assert [(first.tolist(), info) for first, info in resets] == [([1, 2], {}), ([8, 9], {})]
    assert [(next_state.tolist(), *rest) for next_state, *rest in steps] == [
        ([3, 4], 5.0, False, False, {}),
        ([6, 7], 0.0, True, False, {}),
        ([10, 11], 0.0, False, True, {}),
    ]
    assert thread.action(state(12, 13), learn) == "first", "it has finished, so it runs again"
    assert len(seen) == 6


def test_a_library_that_finishes_where_an_episode_begins_runs_again():
    environment = RemoteEnvironment(VECTOR)
    thread, runs = LibraryThread(environment), []

    def learn():
        if not runs:
            environment.reset()
        runs.append(environment.step(len(runs)))
        environment.reset()

    assert thread.action(state(0, 0), learn) == 0
    thread.tell(outcome(0, 1, truncated=True))
    assert thread.action(state(1, 0), learn) == 1
    assert len(runs) == 1


@pytest.mark.parametrize("when", ["before its first state", "after an outcome"])
def test_an_error_in_the_library_surfaces(when):
    environment = RemoteEnvironment(VECTOR)
    thread = LibraryThread(environment)

    def learn():
        if when == "after an outcome":
            environment.reset()
            environment.step(0)
        raise ZeroDivisionError("of the library")

    with pytest.raises(ZeroDivisionError, match="of the library"):  # noqa: PT012
        assert thread.action(state(0, 0), learn) == 0
        thread.tell(outcome(0, 1))
    assert not thread.wants_outcome


@pytest.mark.parametrize("asks", ["for a state", "for an outcome"])
def test_the_librarys_thread_ends_when_nobody_holds_it_any_more(asks):
    environment = RemoteEnvironment(VECTOR)
    thread, before = LibraryThread(environment), set(threading.enumerate())

    def learn():
        environment.reset()
        environment.step(0)
        environment.reset()

    thread.action(state(0, 0), learn)
    if asks == "for a state":
        thread.tell(outcome(0, 1, terminated=True))
    (started,) = set(threading.enumerate()) - before
    del thread
    assert soon(lambda: not started.is_alive())


@pytest.fixture
def scripted(monkeypatch):
    monkeypatch.setattr(stable_learner, "stable_baselines3", SimpleNamespace(PPO=Scripted))
    monkeypatch.setattr(Scripted, "action", np.zeros(1, np.float32))
    return Scripted


def seen_by(agents):
    return agents.learner._model.seen


@pytest.mark.parametrize("overlap", [False, True])
def test_an_episodes_last_state_is_its_own(scripted, overlap):
    agents = population(lambda: Counting(lengths=(3, 2)), (0,), PPODefaults(), overlap=overlap)
    advance(agents, 6)
    # Counting shows (episode, step), and its reward is 100 * episode + step.
    expected = [
        ("reset", [0, 0]),
        ("step", [0, 1], 0.0, False, False),
        ("step", [0, 2], 1.0, False, False),
        ("step", [0, 3], 2.0, True, False),
        ("reset", [1, 0]),
        ("step", [1, 1], 100.0, False, False),
        ("step", [1, 2], 101.0, False, True),
        ("reset", [2, 0]),
        ("step", [2, 1], 200.0, False, False),
    ]
    assert seen_by(agents) == expected
    assert agents.learner._model.num_timesteps == 6


@pytest.mark.parametrize("overlap", [False, True])
def test_an_episode_that_is_left_in_the_middle_is_told_as_truncated(scripted, overlap):
    agents = population(lambda: Counting(lengths=(100,)), (0,), PPODefaults(), overlap=overlap)
    advance(agents, 2)
    step(agents)
    agents.begin_anew(0)  # before the library has learned from the last step
    advance(agents, 2)
    expected = [
        ("reset", [0, 0]),
        ("step", [0, 1], 0.0, False, False),
        ("step", [0, 2], 1.0, False, False),
        ("step", [0, 3], 2.0, False, False),
        ("step", [0, 3], 0.0, False, True),
        ("reset", [1, 0]),
        ("step", [1, 1], 100.0, False, False),
        ("step", [1, 2], 101.0, False, False),
    ]
    assert seen_by(agents) == expected


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("stop", [2, 3])  # in the middle of an episode, and at its end
def test_a_resumed_library_begins_in_the_state_that_its_agent_sees(scripted, overlap, stop):
    def make():
        return Seeded(lengths=(3,), ends=("terminated",))

    stopped, resumed = (population(make, (0,), PPODefaults(), overlap=overlap) for _ in range(2))
    advance(stopped, stop)
    assert resumed.load_state_of(0, stopped.state_of(0)) is None
    advance(resumed, 5 - stop)
    first, second = (environment_seed(0, episode) % 1_000 for episode in range(2))
    expected = [
        ("reset", [first, 2]),
        ("step", [first, 3], 100.0 * first + 2, True, False),
        ("reset", [second, 0]),
        ("step", [second, 1], 100.0 * second, False, False),
        ("step", [second, 2], 100.0 * second + 1, False, False),
    ]
    if stop == 3:
        expected = expected[2:]
    if overlap:  # the next action was chosen before the checkpoint, so this library does not learn from it
        expected = expected[2:] if stop == 2 else [("reset", [second, 1]), expected[-1]]
    assert seen_by(resumed) == expected


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("lengths", [(10,), (7,)])  # an episode ends where the first training does, or not
def test_training_may_be_extended(scripted, overlap, lengths):
    agents = population(lambda: Counting(lengths=lengths), (0,), PPODefaults(), steps=10, overlap=overlap)
    advance(agents, 10)
    agents.expect(15)
    advance(agents, 5)
    steps = [event for event in seen_by(agents) if event[0] == "step"]
    places = [divmod(number, lengths[0]) for number in range(15)]
    assert [reward for _, _, reward, *_ in steps] == [100.0 * episode + place for episode, place in places]


def test_images_are_stacked_and_actions_are_numbers(scripted, monkeypatch):
    monkeypatch.setattr(Scripted, "action", 1)
    agents = population(Pixels, (0,), PPODefaults())
    advance(agents, 2)
    (_, first), (_, second, *_), (_, third, *_) = seen_by(agents)
    environment = agents.learner._model.environment
    assert (environment.observation_space.shape, environment.observation_space.dtype) == ((4, 84, 84), np.uint8)
    assert environment.action_space.n == 2
    place = np.argmax(first[0][0]) // 8
    for shown, places in ((first, [0] * 4), (second, [0] * 3 + [1]), (third, [0] * 2 + [1, 2])):
        assert [np.argmax(frame[0]) // 8 for frame in shown] == [place + moved for moved in places]


def test_actions_are_rescaled_and_episodes_are_the_seeds(scripted, monkeypatch):
    monkeypatch.setattr(Scripted, "action", np.array([-0.4], np.float32))  # the environment's 3
    goals = []
    for seed in (3, 3, 4):
        agents = population(Target, (seed,), PPODefaults())
        advance(agents, 2)
        (_, (first,)), (_, _, reward, terminated, _), (_, (second,)) = seen_by(agents)[:3]
        assert (reward, terminated) == (pytest.approx(-abs(-0.4 - first), abs=1e-6), True)
        goals.append((first, second))
    assert goals[0] == goals[1]
    assert len({*goals[0], *goals[2]}) == 4
