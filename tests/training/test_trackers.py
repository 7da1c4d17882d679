"""Trackers are told of a training, a resumed one continues their runs, and whatever they do, training continues."""

import json
import shutil
import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import imageio
import numpy as np
import pytest

from mrq import MRQ, MRQError, cli
from mrq.interface import Identity
from mrq.training.listeners.listener import Listener, Listeners
from mrq.training.listeners.trackers import BEGIN
from mrq.training.run_folder import RunFolder
from mrq.training.runs import resume, resume_command, start
from mrq.training.settings import Settings
from mrq.training.tracking_file import read_tracking
from tests.command_line import SMALL, mrq, rows, steps_in
from tests.command_line import start as start_mrq
from tests.documents import edit
from tests.environments_for_tests import Counting
from tests.training.recording import Recording
from tests.training.tracker_records import put_aside, record_of, runs_of
from tests.waiting import soon

COUNTING = "tests.environments_for_tests:Counting"
REMOTE = tuple(BEGIN)
# Counting's episode e of T steps returns 100 * e * T + 0 + 1 + ... + (T - 1). T is 7, 3, 12, and then 7 again.
EPISODES = [(7, 21), (10, 303), (22, 2_466), (29, 2_121), (32, 1_203), (44, 6_066), (51, 4_221), (54, 2_103)]
EVALUATIONS = [(0, 21), (50, 303), (75, 2_466)]


@pytest.fixture
def settings(small):
    return Settings(steps=75, evaluate_every=50, evaluation_episodes=1, workers=0, device="cpu", hyperparameters=small)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Lets the real libraries record in a folder of these tests; returns the variables that say so.

    Some of the libraries read them only when they are imported.
    """
    place = tmp_path_factory.mktemp("trackers")
    with pytest.MonkeyPatch.context() as patch:
        variables = {
            "WANDB_MODE": "offline",
            "WANDB_DIR": str(place),
            "MLFLOW_TRACKING_URI": f"sqlite:///{place}/mlflow.db",
            "TRACKIO_DIR": str(place / "trackio"),
        }
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.chdir(place)  # where MLflow keeps films
        yield variables


@pytest.fixture(params=REMOTE)
def tracker(request, places):
    """Returns the name of a tracker whose library is installed."""
    pytest.importorskip(request.param, reason=f"needs mrq-rl[{request.param}]")
    return request.param


class Told:
    """A tracker's run that keeps what it is told, or fails when it is told something."""

    begun, failing, keeps = [], None, True

    def __init__(self, folder, known):
        self.id, self.place, self.known = known or f"run-{len(Told.begun)}", "somewhere", known
        self.rows, self.events = [], []
        Told.begun.append(self)
        self._maybe_fail("begin")

    def _maybe_fail(self, event):
        self.events.append(event)
        if Told.failing == event:
            raise OSError("the network\nis down")

    def log(self, rows):
        self.rows += rows.items()
        self._maybe_fail("log")

    def film(self, steps, path):
        self._maybe_fail("film")

    def checkpoint(self, steps, name):
        self._maybe_fail("checkpoint")

    def end(self, complete):
        self._maybe_fail("end")
        self.complete = complete


@pytest.fixture
def told(monkeypatch):
    """Puts a tracker of our own in the place of W&B; returns the runs that it begins."""
    module = ModuleType("wandb")
    module.__spec__ = ModuleSpec("wandb", None, origin="tests")
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.setitem(BEGIN, "wandb", Told)
    monkeypatch.setattr(Told, "begun", [])
    monkeypatch.setattr(Told, "failing", None)
    return Told.begun


def returns(folder):
    """Returns the evaluations in a run folder."""
    return [(int(row["step"]), float(row["return_mean"])) for row in rows(folder)]


class Stopping(Listener):
    """Stops the training at a step."""

    def __init__(self, at):
        self.at = at

    def step(self, steps, steps_per_second):
        return steps < self.at


# What the real libraries record


@pytest.mark.slow
def test_what_a_tracker_is_told(tracker, settings, tmp_path):
    recording = Recording()
    runs = start(
        [Identity(COUNTING, seed) for seed in (3, 4)], replace(settings, track=(tracker,)), tmp_path, recording
    )
    assert not (runs.runs[0].path / "tensorboard").exists(), "it was not asked for"
    losses = []
    for run in runs.runs:
        record = record_of(tracker, read_tracking(run.path)[tracker].run)
        assert record.values["evaluation/return"] == returns(run.path) == EVALUATIONS
        assert record.values["evaluation/length"] == [(0, 7), (50, 3), (75, 12)]
        assert record.values["training/episode_return"][: len(EPISODES)] == EPISODES
        assert record.values["speed/steps_per_second"][0][0] == 70
        losses.append(record.values["learning/value_loss"])
        assert (record.config["task"], record.config["seed"]) == (COUNTING, str(run.seed))
        assert record.config["algorithm"] == "MR.Q"
        assert record.config["settings.hyperparameters.batch_size"] == "16"
        assert record.config["versions.torch"] == run.versions["torch"]
        assert record.checkpoint == next((run.path / "checkpoints").iterdir()).name
    metrics = recording.all("metrics")[0][1]
    assert losses == [[(70, pytest.approx(metrics[agent]["value_loss"]))] for agent in (0, 1)]
    said = [message for message in recording.messages if f"{tracker} begins" in message]
    assert [message.partition(": ")[0] for message in said] == [f"{COUNTING} (seed {seed})" for seed in (3, 4)]


@pytest.mark.slow
def test_a_resumed_run_continues_the_trackers_run(tracker, settings, tmp_path):
    stopped = start([Identity(COUNTING, 0)], replace(settings, track=(tracker,)), tmp_path, Stopping(53))
    (run,) = stopped.runs
    known, before = read_tracking(run.path)[tracker].run, runs_of(tracker)
    put_aside()
    resume([run.path], None, Listener(), trust=True)
    assert (read_tracking(run.path)[tracker].run, runs_of(tracker)) == (known, before)
    record = record_of(tracker, known)
    assert record.values["evaluation/return"] == returns(run.path)
    assert steps_in(run.path) == [0, 50, 75]
    assert record.values["training/episode_return"][:7] == EPISODES[:7]


@pytest.mark.slow
def test_a_killed_and_resumed_run_is_told_once(tracker, places, tmp_path):
    """It is killed before its first checkpoint, so every step is taken again."""
    options = ("--steps", 600, "--workers", 0, "--track", tracker)
    process = start_mrq("train", "Pendulum-v1", *SMALL, *options, cwd=tmp_path, **places)
    run = tmp_path / "runs" / "Pendulum-v1" / "seed-0"
    told = lambda: read_tracking(run)[tracker].told.get("evaluation", -1)  # noqa: E731
    assert soon(lambda: (run / "tracking.json").exists() and told() >= 200, 120)
    known = read_tracking(run)[tracker].run
    if tracker == "trackio":  # which keeps what it is told for half a second
        assert soon(lambda: 200 in dict(record_of(tracker, known).values["evaluation/return"]))
    process.kill()
    process.communicate()
    before = runs_of(tracker)
    code, out, err = mrq("resume", run, "--track", tracker, cwd=tmp_path, **places)
    assert code == 0, err
    assert f"Pendulum-v1 (seed 0): {tracker} continues " in out
    assert "resuming at step 0 of 600" in out
    assert (read_tracking(run)[tracker].run, runs_of(tracker)) == (known, before)
    record = record_of(tracker, known)
    assert dict(record.values["evaluation/return"]) == pytest.approx(dict(returns(run)))
    assert steps_in(run) == [0, 200, 400, 600]
    if tracker == "wandb":  # which forgets offline what it was told before a kill, or most of it
        return
    for name, values in record.values.items():
        steps = [step for step, _ in values]
        assert sorted(set(steps)) == sorted(steps), f"{name} is there twice"


@pytest.mark.slow
def test_films_are_told(tracker, settings, tmp_path):
    class Filming(Listener):
        """Puts films into the run folder after an evaluation, as whoever films would."""

        def evaluation(self, steps, evaluations, seconds):
            films = tmp_path / "tests.environments_for_tests-Counting" / "seed-0" / "films"
            films.mkdir(exist_ok=True)
            imageio.mimwrite(films / f"step-{steps}.gif", np.zeros((2, 8, 8, 3), np.uint8))
            (films / ".step.unfinished.mp4").write_text("being written")
            if steps == 0:
                (tmp_path / "secret.mp4").write_text("mine")
                (films / "link.mp4").symlink_to(tmp_path / "secret.mp4")

    recording = Recording()
    listener, settings = Listeners([Filming(), recording]), replace(settings, track=(tracker,))
    (run,) = start([Identity(COUNTING, 0)], settings, tmp_path, listener).runs
    assert not [message for message in recording.messages if "failed" in message]
    record = record_of(tracker, read_tracking(run.path)[tracker].run)
    assert sorted(record.films) == ["step-0.gif", "step-50.gif", "step-75.gif"]


@pytest.mark.slow
def test_trackers_in_python(tracker, tmp_path, small):
    agent = MRQ(Counting, hyperparameters=small)
    for _ in range(2):
        put_aside()
        agent.learn(30, evaluate_every=20, run_folder=tmp_path / "run", track=("tensorboard", tracker))
    record = record_of(tracker, read_tracking(tmp_path / "run")[tracker].run)
    assert record.values["evaluation/return"] == returns(tmp_path / "run")
    assert steps_in(tmp_path / "run") == [0, 20, 30, 40, 60]
    assert list((tmp_path / "run" / "tensorboard").iterdir())


def test_in_python_a_tracker_needs_a_run_folder(told, small):
    agent = MRQ(Counting, hyperparameters=small)
    with pytest.raises(MRQError, match="need a run_folder"):
        agent.learn(10, track=("wandb",))
    with pytest.raises(MRQError, match="track is 'neptune'; it must be tensorboard, wandb, mlflow, trackio"):
        agent.learn(10, track=("neptune",), run_folder="run")
    assert agent.num_timesteps == 0


# When a tracker is told, with one of our own


def test_every_value_is_told_once_and_before_a_checkpoint(told, settings, tmp_path):
    settings = replace(settings, track=("wandb", "wandb"))
    (run,) = start([Identity(COUNTING, 0)], settings, tmp_path, Stopping(53)).runs
    first, steps = told[0], [step for step, _ in told[0].rows]
    assert (len(told), first.known, first.complete) == (1, None, False), "a name that is given twice counts once"
    assert first.events[-2:] == ["checkpoint", "end"]
    assert max(steps) == 51
    resume([run.path], 90, Listener(), track=("wandb",), trust=True)
    second = told[1]
    assert (second.known, second.complete) == (first.id, True)
    assert min(step for step, _ in second.rows) > 51
    shutil.rmtree(run.path / "checkpoints")
    (run.path / "evaluations.csv").unlink()
    resume([run.path], 90, Listener(), track=("wandb",), trust=True)
    assert [row for row in told[2].rows if "evaluation/return" in row[1]] == []
    assert steps_in(run.path) == [0, 50, 90]


def test_a_tracker_that_forgets_is_told_again(told, settings, tmp_path, monkeypatch):
    monkeypatch.setattr(Told, "keeps", False)
    (run,) = start([Identity(COUNTING, 0)], replace(settings, track=("wandb",)), tmp_path, Stopping(53)).runs
    shutil.rmtree(run.path / "checkpoints")
    (run.path / "evaluations.csv").unlink()
    resume([run.path], None, Listener(), track=("wandb",), trust=True)
    assert (told[1].known, told[1].rows[0][0]) == (told[0].id, 0)


def test_episodes_that_end_together_are_told_as_their_mean(told, settings, tmp_path):
    start([Identity(COUNTING, 0)], replace(settings, envs=2, track=("wandb",)), tmp_path, Listener())
    rows = dict(told[0].rows)
    assert rows[14]["training/episode_return"] == 21  # both environments play the same first episode


def test_the_run_of_an_agent_that_fails_ends_and_the_others_continue(told, settings, tmp_path):
    identities = [Identity(COUNTING, 0), Identity("tests.environments_for_tests:nan_observation", 0)]
    start(identities, replace(settings, track=("wandb",)), tmp_path, Listener())
    assert [run.complete for run in told] == [True, False]
    assert told[0].rows[-1][0] == 75
    assert told[1].rows[-1][0] <= 29


@pytest.mark.parametrize(("event", "runs"), [("begin", 1), ("log", 2), ("checkpoint", 2), ("end", 2)])
def test_training_continues_without_a_tracker_that_fails(event, runs, told, settings, tmp_path, monkeypatch):
    monkeypatch.setattr(Told, "failing", event)
    recording, identities = Recording(), [Identity(COUNTING, seed) for seed in (0, 1)]
    outcome = start(identities, replace(settings, track=("tensorboard", "wandb")), tmp_path, recording)
    assert [returns(run.path) for run in outcome.runs] == [EVALUATIONS] * 2
    sentence = "wandb failed, and training continues without it: OSError: the network is down"
    assert recording.messages.count(sentence) == 1
    assert (len(told), sum(run.events.count(event) for run in told)) == (runs, 1), "it is told no more"


@pytest.mark.slow
def test_a_server_that_cannot_be_reached_does_not_stop_the_training(settings, tmp_path, places, monkeypatch):
    pytest.importorskip("mlflow", reason="needs mrq-rl[mlflow]")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    recording = Recording()
    (run,) = start([Identity(COUNTING, 0)], replace(settings, track=("mlflow",)), tmp_path, recording).runs
    assert returns(run.path) == EVALUATIONS
    (sentence,) = [message for message in recording.messages if "mlflow failed" in message]
    assert "Connection refused" in sentence


@pytest.mark.parametrize("name", REMOTE)
def test_a_tracker_that_is_not_installed_is_refused_before_training(name, settings, tmp_path, monkeypatch, small):
    monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "wandb").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))  # W&B's files lie in a folder that Python could take for the package
    sentence = rf"--track {name} needs a package that is not installed; run: pip install 'mrq-rl\[{name}\]'"
    with pytest.raises(MRQError, match=sentence):
        start([Identity(COUNTING, 0)], replace(settings, track=(name,)), tmp_path / "runs", Listener())
    with pytest.raises(MRQError, match=sentence):
        MRQ(Counting, hyperparameters=small).learn(5, run_folder=tmp_path / "runs", track=[name])
    assert not (tmp_path / "runs").exists()
    (run,) = start([Identity(COUNTING, 0)], settings, tmp_path / "runs", Stopping(10)).runs
    with pytest.raises(MRQError, match=sentence):
        resume([run.path], None, Listener(), track=(name,), trust=True)


# What a run folder may ask for


@pytest.fixture
def strangers(settings, tmp_path):
    """Returns a run folder that asks for W&B."""
    (run,) = start([Identity("Pendulum-v1", 0)], replace(settings, steps=10), tmp_path / "runs", Listener()).runs
    edit(run.path, '"track": ["tensorboard"]', '"track": ["wandb"]')
    return run.path


def test_a_folder_alone_starts_no_upload(strangers, told):
    with pytest.raises(MRQError, match="could upload it; add --track wandb, or --track tensorboard to resume it"):
        resume([strangers], 20, Listener())
    assert RunFolder(strangers).step == 10
    resume([strangers], 20, Listener(), track=())
    assert not told
    assert RunFolder(strangers).settings.track == (), "the latest choice is recorded"
    resume([strangers], 30, Listener())
    assert (told, RunFolder(strangers).step) == ([], 30)


def test_the_user_starts_what_a_folder_asks_for(strangers, told):
    resume([strangers], 20, Listener(), trust=True)
    resume([strangers], 30, Listener(), track=("wandb",))
    assert [run.known for run in told] == [None, "run-0"]


@pytest.mark.parametrize(
    "content",
    [
        *('{"wandb": {"run": "../../x", "told": {}}}', '{"wandb": {"run": "", "told": {}}}', '{"wandb": 7}', "["),
        *('{"wandb": {"run": "x/y"}}', '{"wandb": {"run": "x", "told": {"evaluation": "all"}}}', "[" * 100_000),
        *('{"wandb": {"run": "x", "server": "https://example.org"}}', '{"wandb": {"run": ["x"]}}', "[]"),
    ],
)
def test_a_forged_record_of_runs_is_not_used(content, strangers, told):
    (strangers / "tracking.json").write_text(content)
    recording = Recording()
    resume([strangers], 20, recording, track=("wandb",))
    (sentence,) = [message for message in recording.messages if "wandb failed" in message]
    assert "tracking.json cannot be read" in sentence
    assert (told, RunFolder(strangers).step) == ([], 20)


def test_no_link_is_followed_in_place_of_the_record_of_runs(strangers, told, tmp_path):
    (tmp_path / "mine").write_text('{"wandb": {"run": "mine", "told": {}}}')
    (strangers / "tracking.json").symlink_to(tmp_path / "mine")
    recording = Recording()
    resume([strangers], 20, recording, track=("wandb",))
    assert any("it is a symbolic link" in message for message in recording.messages)
    assert not told
    assert (tmp_path / "mine").read_text() == '{"wandb": {"run": "mine", "told": {}}}'


@pytest.mark.parametrize("name", ["wandb", ".wandb"])
def test_settings_of_wandb_in_the_current_folder_are_refused(name, strangers, told, monkeypatch):
    """They could name a server that is sent the user's key."""
    monkeypatch.chdir(strangers)
    Path(name).mkdir()
    Path(name, "settings").write_text("[default]\nbase_url = https://example.org\n")
    with pytest.raises(MRQError, match=f"from {name}/settings in the current folder; start in another folder"):
        resume([strangers], 20, Listener(), track=("wandb",))
    assert not told
    resume([strangers], 20, Listener(), track=("tensorboard",))


# On the command line


def test_how_trackers_are_named_on_the_command_line():
    assert cli.parse(["train", "Pendulum-v1"]).settings.track == ("tensorboard",)
    assert cli.parse(["train", "Pendulum-v1", "--track"]).settings.track == ()
    several = cli.parse(["train", "Pendulum-v1", "--track", "tensorboard", "wandb", "--steps", "5"])
    assert several.settings.track == ("tensorboard", "wandb")
    assert cli.parse(["resume", "run"]).track is None
    assert cli.parse(["resume", "run", "--track"]).track == ()
    assert cli.parse(["resume", "run", "--track", "mlflow", "trackio"]).track == ("mlflow", "trackio")
    assert cli.parse(["bench", "gym", "--track", "mlflow"]).settings.track == ("mlflow",)
    with pytest.raises(SystemExit):
        cli.parse(["train", "Pendulum-v1", "--track", "neptune"])


def test_the_command_that_resumes_a_run_names_its_trackers(told, settings, tmp_path):
    (plain,) = start([Identity("Pendulum-v1", 0)], replace(settings, steps=5), tmp_path, Listener()).runs
    tracked = replace(settings, steps=5, track=("tensorboard", "wandb"))
    (run,) = start([Identity("Pendulum-v1", 1)], tracked, tmp_path, Listener()).runs
    assert resume_command([plain]).endswith(f"resume {plain.path}")
    assert resume_command([run]).endswith(f"resume {run.path} --track tensorboard wandb")


def test_a_run_of_an_earlier_version_is_tracked_with_tensorboard(settings, tmp_path):
    (run,) = start([Identity("Pendulum-v1", 0)], replace(settings, steps=5), tmp_path, Listener()).runs
    edit(run.path, '"track": ["tensorboard"], ', "")
    resume([run.path], 10, Listener())
    assert RunFolder(run.path).settings.track == ("tensorboard",)
    assert json.loads((run.path / "run.json").read_text())["settings"]["track"] == ["tensorboard"]
