"""Several environments for each agent: `--envs`."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from mrq import MRQ, MRQError
from mrq.interface import Identity
from mrq.training.listeners.listener import Listener
from mrq.training.run_folder import RunFolder
from mrq.training.runs import resume, start
from mrq.training.settings import Settings
from tests.command_line import assert_same
from tests.environments_for_tests import Broken, Counting, Pixels
from tests.training.populations import advance, assert_alike, assert_equal, fleet, population
from tests.training.recording import Recording

COPIES = 3
PENDULUM = "Pendulum-v1"


def pendulum():
    return gym.make(PENDULUM)


@pytest.mark.parametrize(("rate", "updates"), [(1.0, 60), (0.25, 15), (0.07, 4), (2.5, 150)])
def test_updates_keep_pace_with_transitions(rate, updates, small):
    agents = population(pendulum, (0,), replace(small, random_steps=51, updates_per_step=rate), copies=COPIES)
    advance(agents, 51 + 60)
    assert agents.steps == 111
    assert agents.learner.updates == updates
    assert agents.learner.encoder_updates == -(-updates // small.target_period) * small.target_period


def test_the_first_environment_begins_as_the_only_one_would_and_the_others_differ(small):
    several, alone = population(pendulum, (7,), small, copies=COPIES), population(pendulum, (7,), small)
    for agents in (several, alone):
        advance(agents, 1)
    first = several.replay.frames[0, :COPIES].numpy()
    np.testing.assert_array_equal(first[0], alone.replay.frames[0, 0])
    assert len(np.unique(first, axis=0)) == COPIES


def test_every_environment_has_windows_of_its_own(small):
    lengths = iter([(7, 9), (5, 8, 6), (11,)])
    agents = population(lambda: Counting(next(lengths)), (0,), small, steps=600, copies=COPIES)
    advance(agents, 600)
    uniforms = np.random.default_rng(0).random((1, 500), np.float32)
    windows = agents.replay.sample(agents.replay.rewards.new_tensor(uniforms), (0, 5))
    slots, states, _, rewards, alive = (each.numpy() for each in windows)
    episode, step = states[0, :, 0].T
    # Episode e rewards step t with 100 * e + t, and has one length in each of the environments.
    following = step[:, None] + np.arange(5)
    np.testing.assert_array_equal(rewards[0], (100 * episode[:, None] + following) * alive[0, :, :-1])
    own = {0: (7, 9), 1: (5, 8, 6), 2: (11,)}
    for slot, e, t in zip((slots[0] % COPIES).tolist(), episode.astype(int).tolist(), step.tolist(), strict=True):
        assert t < own[slot][e % len(own[slot])]
    assert set((slots[0] % COPIES).tolist()) == {0, 1, 2}


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("make", [pendulum, Counting, pytest.param(Pixels, marks=pytest.mark.slow)])
def test_an_agent_does_what_its_seed_does_alone(make, small, overlap):
    together = population(make, (4, 5), small, copies=COPIES, overlap=overlap)
    alone = population(make, (5,), small, copies=COPIES, overlap=overlap)
    for agents in (together, alone):
        advance(agents, 90)
    assert_alike(together.state_of(1), alone.state_of(0))


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("stop", [12, 51, 60, 75])
@pytest.mark.parametrize("make", [pendulum, pytest.param(lambda: Pixels(episode_steps=7), marks=pytest.mark.slow)])
def test_a_resumed_agent_continues_as_if_it_had_not_stopped(make, small, stop, overlap):
    plain, stopped, resumed = (population(make, (0,), small, copies=COPIES, overlap=overlap) for _ in range(3))
    advance(plain, 90)
    advance(stopped, stop)
    assert resumed.load_state_of(0, stopped.state_of(0)) is None
    advance(resumed, 90 - stop)
    assert_equal(resumed.state_of(0), plain.state_of(0))


def test_a_checkpoint_of_other_environments_is_refused(small):
    several, alone = population(pendulum, (0,), small, copies=COPIES), population(pendulum, (0,), small)
    advance(several, 9)
    with pytest.raises(ValueError, match="the number of environments cannot be right"):
        population(pendulum, (0,), small, copies=2).load_state_of(0, several.state_of(0))
    with pytest.raises((ValueError, TypeError)):
        alone.load_state_of(0, several.state_of(0))


def test_an_agent_stops_if_one_of_its_environments_fails(small):
    faults = iter(["none", "raises", "none", "none", "none", "none"])
    agents, told = fleet([lambda: Broken(next(faults))] * 2, (0, 1), small, copies=COPIES), []
    agents.on_fault = lambda agent, fault: told.append((agent, str(fault)))
    advance(agents, 120)
    assert [agent for agent, _ in told] == [0]
    assert agents.active.tolist() == [False, True]
    alone = population(lambda: Broken("none"), (1,), small, copies=COPIES)
    advance(alone, 120)
    assert agents.state_of(1).counters["learner"] == alone.state_of(0).counters["learner"]


@pytest.fixture
def settings(small):
    return Settings(steps=101, envs=4, evaluate_every=30, evaluation_episodes=1, workers=0, hyperparameters=small)


class StopsAt(Listener):
    """Stops a training as soon as it has taken so many steps."""

    def __init__(self, steps):
        self._steps = steps

    def step(self, steps, steps_per_second):
        return steps < self._steps


def test_a_run_ends_after_as_many_steps_in_every_environment(settings, tmp_path):
    recording = Recording()
    (run,) = start([Identity(PENDULUM, 0)], settings, tmp_path, recording).runs
    # 101 steps are 26 in each of four environments; evaluations come with the first step at or after 30, 60 and 90.
    assert [int(row["step"]) for row in run.evaluations()] == [0, 32, 60, 92, 104]
    assert (run.step, run.unfinished) == (104, False)
    assert "step 52: random steps are over, learning begins" in recording.messages
    with pytest.raises(MRQError, match="has finished its 104 steps"):
        resume([run.path], None, Listener())


@pytest.mark.parametrize("workers", [0, 2])
def test_an_interrupted_run_becomes_the_same(settings, tmp_path, workers):
    settings = replace(settings, workers=workers)
    (plain,) = start([Identity(PENDULUM, 0)], settings, tmp_path / "plain", Listener()).runs
    (run,) = start([Identity(PENDULUM, 0)], settings, tmp_path / "stopped", StopsAt(70)).runs
    assert run.step == 72
    resume([run.path], None, Listener())
    assert_same(run.path, plain.path)


def test_the_number_of_environments_belongs_to_the_run(settings, tmp_path):
    (run,) = start([Identity(PENDULUM, 0)], settings, tmp_path, StopsAt(40)).runs
    agent = MRQ.load(run.path)
    agent.learn(20)
    assert agent.num_timesteps == 60
    assert RunFolder(run.path).settings.envs == 4


@pytest.mark.parametrize(
    ("envs", "capacity", "sentence"),
    [
        (20, 10_000, "random_steps is 50; with 20 environments per agent it must be at least 100"),
        (4, 300, "replay_capacity is 300; with 4 environments it must be at least 400"),
    ],
)
def test_too_many_environments_are_refused(envs, capacity, sentence, settings, tmp_path):
    h = replace(settings.hyperparameters, replay_capacity=capacity)
    with pytest.raises(MRQError, match=sentence):
        start([Identity(PENDULUM, 0)], replace(settings, envs=envs, hyperparameters=h), tmp_path, Listener())
    assert not list(tmp_path.rglob("run.json"))


def test_a_task_that_a_function_makes_is_loaded_too(settings, tmp_path):
    task = "tests.environments_for_tests:Counting"
    (run,) = start([Identity(task, 0)], settings, tmp_path, StopsAt(40)).runs
    assert MRQ.load(run.path, trust=True).learn(8).num_timesteps == 48


def test_in_python(small):
    agent = MRQ(PENDULUM, hyperparameters=small, envs=4).learn(70, evaluate_every=36)
    assert agent.num_timesteps == 72
    same = MRQ(lambda: gym.make(PENDULUM), hyperparameters=small, envs=4, task=PENDULUM).learn(70)
    observation = np.array([1.0, 0.0, 0.5], np.float32)
    np.testing.assert_array_equal(agent.predict(observation)[0], same.predict(observation)[0])
    environment = gym.make(PENDULUM)
    with pytest.raises(MRQError, match="envs=2 needs as many environments: the function must make a new one at every"):
        MRQ(lambda: environment, envs=2)
    with pytest.raises(MRQError, match="envs=2 needs as many environments: give MRQ an id, or a function"):
        MRQ(Counting(), envs=2)
    with pytest.raises(MRQError, match="envs is 0; it must be between 1 and"):
        MRQ(PENDULUM, envs=0)
