"""Callbacks of `MRQ.learn`, and stopping early on the command line."""

import json
from dataclasses import replace
from operator import itemgetter

import gymnasium as gym
import imageio
import numpy as np
import pytest
from gymnasium import spaces

from mrq import MRQ, MRQError
from mrq.callbacks import Callback, FilmEvery, KeepBest, SaveEvery, StopAtReturn, StopWithoutImprovement
from mrq.interface import Identity
from mrq.training.checkpoint import latest_checkpoint
from mrq.training.evaluation import Evaluation
from mrq.training.listeners.listener import Listener, Training
from mrq.training.playing import play
from mrq.training.runs import resume, start
from mrq.training.settings import Settings
from tests.command_line import SMALL, mrq
from tests.environments_for_tests import Counting

REWARDS = (1.0, 3.0, 2.0, 2.5, 4.0, 1.0)  # of episodes of one step


class Scripted(gym.Env[np.ndarray, np.int64]):
    """Has these rewards one after the other, and pictures as bright as an episode's number."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, render_mode=None) -> None:
        self.observation_space, self.action_space = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2)
        self.episode, self.render_mode = -1, render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), REWARDS[self.episode % len(REWARDS)], True, False, {}

    def render(self):
        return np.full((16, 16, 3), 20 * self.episode, np.uint8)


def filmable():
    return Scripted(render_mode="rgb_array")


@pytest.fixture
def agent(small):
    return MRQ(filmable, hyperparameters=small)


class Recording(Callback):
    def __init__(self):
        self.returns, self.steps = [], []

    def step(self, steps, steps_per_second):
        self.steps.append((steps, self.agent.num_timesteps))

    def evaluation(self, steps, evaluations, seconds):
        self.returns.append((steps, evaluations[0].mean))


def test_several_callbacks_are_told_of_every_event(agent):
    first, second, calls = Recording(), Recording(), []
    agent.learn(20, callback=[first, second, lambda agent: calls.append(agent.num_timesteps)], evaluate_every=10)
    assert first.returns == second.returns
    assert [step for step, _ in first.returns] == [0, 10, 20]
    assert first.steps == second.steps == [(step, step) for step in range(1, 21)]
    assert calls == list(range(1, 21))


def asked_to_stop_at(listener, earlier, returns):
    """Returns the number of evaluations after which a listener asks to stop; None if it does not."""
    answers = [listener.training_begins(Training([], 0, 100, 10, earlier, None))]
    for evaluated in zip(*returns, strict=True):
        evaluations = {agent: Evaluation([value], [1]) for agent, value in enumerate(evaluated)}
        answers.append(listener.evaluation(0, evaluations, np.zeros(len(evaluated))))
    return answers.index(False) if False in answers else None


@pytest.mark.parametrize(("target", "evaluations"), [(1, 1), (1.1, 2), (3.5, 5), (4, 5), (4.1, None)])
def test_stopping_at_a_return(target, evaluations):
    assert asked_to_stop_at(StopAtReturn(target), [[]], [REWARDS]) == evaluations


def test_every_agent_has_to_reach_the_return_once():
    assert asked_to_stop_at(StopAtReturn(3), [[], []], [(1, 3, 1, 1), (1, 1, 1, 5)]) == 4
    assert asked_to_stop_at(StopAtReturn(3), [[3], []], [(1, 1, 1), (1, 4, 1)]) == 2
    assert asked_to_stop_at(StopAtReturn(3), [[3], [4]], [(), ()]) == 0


@pytest.mark.parametrize(("patience", "evaluations"), [(1, 3), (2, 4), (3, None)])
def test_stopping_when_nothing_improves(patience, evaluations):
    assert asked_to_stop_at(StopWithoutImprovement(patience), [[]], [REWARDS]) == evaluations


def test_nothing_improves_when_no_agent_improves():
    assert asked_to_stop_at(StopWithoutImprovement(2), [[], []], [(5, 1, 1, 1, 1), (1, 2, 3, 0, 0)]) == 5
    assert asked_to_stop_at(StopWithoutImprovement(2), [[5, 1], [1, 2]], [(1,), (1,)]) is None
    assert asked_to_stop_at(StopWithoutImprovement(2), [[5, 1], [2, 1]], [(1,), (1,)]) == 1
    assert asked_to_stop_at(StopWithoutImprovement(2), [[5, 1, 1]], [()]) == 0


def test_an_agent_that_fails_does_not_keep_the_others_from_stopping():
    for listener, returns in ((StopAtReturn(3), 4), (StopWithoutImprovement(1), 1)):
        listener.training_begins(Training([], 0, 100, 10, [[2], [2]], None))
        listener.agent_fails(1, MRQError("broken"))
        assert listener.evaluation(0, {0: Evaluation([returns], [1])}, np.zeros(2)) is False


def test_a_false_of_numpy_stops_the_training_too(agent):
    assert agent.learn(50, callback=lambda agent: np.bool_(agent.num_timesteps < 3)).num_timesteps == 3


def test_a_class_is_not_a_callback(agent):
    with pytest.raises(MRQError, match="a callback is <class"):
        agent.learn(10, callback=StopAtReturn)


def test_training_stops_when_a_callback_asks_for_it(agent, capsys):
    assert agent.learn(50, callback=StopAtReturn(-1), evaluate_every=10).num_timesteps == 0
    assert "stopped at step 0: the return of -1 is reached" in capsys.readouterr().out


def test_what_waits_for_evaluations_says_that_there_are_none(agent, settings, tmp_path):
    for callback in (StopAtReturn(1), StopWithoutImprovement(1), KeepBest("best"), FilmEvery(1, "films")):
        with pytest.raises(MRQError, match=f"^{type(callback).__name__} waits for evaluations; give learn"):
            agent.learn(10, callback=callback, run_folder=tmp_path / "run")
    for name in ("stop_at_return", "patience", "film_every"):
        unevaluated = replace(settings, evaluate_every=0, **{name: 3})
        with pytest.raises(MRQError, match=f"^--{name.replace('_', '-')} waits for evaluations; give --evaluate-every"):
            start([Identity("Pendulum-v1", 0)], unevaluated, tmp_path, Listener())
    assert not list(tmp_path.iterdir())
    assert agent.num_timesteps == 0


def test_the_best_agent_is_saved(agent, tmp_path):
    recording, keeping = Recording(), KeepBest(tmp_path / "best")
    agent.learn(20, callback=[keeping, recording], evaluate_every=10)
    agent.learn(10, callback=[keeping, recording], evaluate_every=10)  # it remembers the best of before
    best, _ = max(recording.returns, key=itemgetter(1))
    assert best == 10
    assert MRQ.load(tmp_path / "best", env=filmable).num_timesteps == best


def test_the_agent_is_saved_every_so_many_steps(agent, tmp_path):
    agent.learn(50, callback=SaveEvery(20, tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"step-20", "step-40"}
    assert MRQ.load(tmp_path / "step-20", env=filmable).num_timesteps == 20
    agent.learn(10, callback=SaveEvery(20, tmp_path))
    assert (tmp_path / "step-60").exists()


def test_films_show_every_so_many_evaluations(small, tmp_path):
    MRQ("Pendulum-v1", hyperparameters=small).learn(40, callback=FilmEvery(2, tmp_path), evaluate_every=10)
    films = {path.name: imageio.v3.imread(path) for path in tmp_path.iterdir()}
    assert films.keys() == {"step-0.mp4", "step-20.mp4", "step-40.mp4"}
    assert all(film.shape == (200, 500, 500, 3) for film in films.values()), "an episode has 200 steps"
    assert not np.array_equal(films["step-0.mp4"], films["step-40.mp4"])


def test_an_environment_that_cannot_be_filmed_is_no_reason_to_stop(small, tmp_path, capsys):
    MRQ(Counting, hyperparameters=small).learn(20, callback=FilmEvery(1, tmp_path), evaluate_every=10)
    assert capsys.readouterr().out.count("no films: the environment cannot be filmed: ") == 1
    assert not list(tmp_path.iterdir())


def test_a_callback_that_raises_is_named_and_the_run_is_saved(agent, tmp_path):
    class Fragile(Callback):
        def step(self, steps, steps_per_second):
            if steps == 7:
                raise ZeroDivisionError("oh")

    with pytest.raises(MRQError, match=r"^the callback Fragile failed \(ZeroDivisionError: oh\)\.$") as error:
        agent.learn(50, callback=[Fragile()], run_folder=tmp_path / "run")
    assert isinstance(error.value.__cause__, ZeroDivisionError)
    assert MRQ.load(tmp_path / "run", env=filmable).num_timesteps == 7
    assert agent.learn(3).num_timesteps == 10, "it can still learn"


def test_something_else_than_a_callback_is_refused(agent):
    with pytest.raises(MRQError, match=r"^a callback is 3; give a function of the agent, or an object of"):
        agent.learn(10, callback=[3])


@pytest.fixture
def settings(small):
    return Settings(steps=60, evaluate_every=10, evaluation_episodes=1, workers=0, device="cpu", hyperparameters=small)


def test_a_run_keeps_the_policy_of_its_best_evaluation(settings, tmp_path):
    (run,) = start([Identity("tests.test_callbacks:filmable", 0)], settings, tmp_path, Listener()).runs
    assert [float(row["return_mean"]) for row in run.evaluations()] == [*REWARDS, REWARDS[0]]
    (best,) = (run.path / "best").iterdir()
    assert best.name.endswith("-step-40")
    kept = {path.name: path.stat().st_size for path in best.iterdir()}
    assert kept.keys() == {"checkpoint.json", "learner.safetensors"}
    latest = latest_checkpoint(run.checkpoints)
    assert kept["learner.safetensors"] < (latest / "learner.safetensors").stat().st_size / 2, "it has no moments"


def test_a_resumed_run_remembers_its_best_evaluation(settings, tmp_path):
    identity = Identity("tests.test_callbacks:filmable", 0)
    (run,) = start([identity], replace(settings, steps=40), tmp_path, Listener()).runs
    (run,) = resume([run.path], 60, Listener(), trust=True).runs
    assert [float(row["return_mean"]) for row in run.evaluations()] == [*REWARDS[:5], *REWARDS[:2]]
    assert (run.path / "best").glob("*-step-40")


def test_a_resumption_that_would_wait_for_evaluations_leaves_the_run_as_it_is(settings, tmp_path):
    unevaluated = replace(settings, evaluate_every=0, steps=20)
    (run,) = start([Identity("Pendulum-v1", 0)], unevaluated, tmp_path, Listener()).runs
    with pytest.raises(MRQError, match="--patience waits for evaluations"):
        resume([run.path], 30, Listener(), changes={"patience": 5})
    (run,) = resume([run.path], 30, Listener()).runs
    assert run.step == 30


def test_evaluating_the_best_policy_plays_its_evaluation_again(settings, tmp_path):
    (run,) = start([Identity("Pendulum-v1", 3)], settings, tmp_path, Listener()).runs
    means = [float(row["return_mean"]) for row in run.evaluations()]
    assert max(means) > means[-1], "otherwise the best one is the latest"
    assert play(run.path, 1, False, None, "cpu", best=True).mean == pytest.approx(max(means), rel=1e-6)
    assert play(run.path, 1, False, None, "cpu").mean == pytest.approx(means[-1], rel=1e-6)


def test_a_run_without_evaluations_has_no_best_policy(settings, tmp_path):
    (run,) = start([Identity("Pendulum-v1", 0)], replace(settings, evaluate_every=0), tmp_path, Listener()).runs
    with pytest.raises(MRQError, match="has no best agent: it was not evaluated, or an earlier version trained it"):
        play(run.path, 1, False, None, "cpu", best=True)


@pytest.mark.slow
def test_stopping_early_on_the_command_line_survives_a_resumption(tmp_path):
    _, first, _ = mrq("train", "Pendulum-v1", *SMALL, "--stop-at-return=-1e9", "--film-every=1", cwd=tmp_path)
    assert "stopped at step 0: the return of -1e+09 is reached" in first
    run = tmp_path / "runs" / "Pendulum-v1" / "seed-0"
    assert (run / "films" / "step-0.mp4").stat().st_size > 0
    _, again, _ = mrq("resume", run, cwd=tmp_path)
    assert "stopped at step 0: the return of -1e+09 is reached" in again
    _, longer, _ = mrq("resume", run, "--stop-at-return=inf", "--patience=1", "--steps=2000", cwd=tmp_path)
    assert "the best return has not improved for 1 evaluations" in longer
    settings = json.loads((run / "run.json").read_text())["settings"]
    assert (settings["stop_at_return"], settings["patience"], settings["film_every"]) == (None, 1, 1)


def test_benchmarks_do_not_stop_early(tmp_path):
    code, _, error = mrq("bench", "gym", "--patience=3", cwd=tmp_path)
    assert code != 0
    assert "`mrq bench` trains to the end: leave out --stop-at-return and --patience." in error
