"""Starting and resuming runs, in this process."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from unittest import mock

import gymnasium as gym
import pytest

from mrq import MRQ, MRQError
from mrq.environments.options import EnvironmentOptions
from mrq.environments.recipe import Recipe
from mrq.interface import Identity
from mrq.training import checkpoint, loop, playing, runs
from mrq.training.checkpoint import latest_checkpoint, read_arrays, read_counters, read_tensors, write_checkpoint
from mrq.training.listeners.listener import Listener
from mrq.training.run_creation import create_run_folder
from mrq.training.run_folder import RunFolder
from mrq.training.runs import Outcome, resume, resume_command, start
from mrq.training.settings import Settings
from tests.command_line import assert_same
from tests.documents import document_of, edit
from tests.training.recording import Recording

QUIET = Listener()


@pytest.fixture
def settings(small):
    return Settings(steps=60, evaluate_every=50, evaluation_episodes=1, workers=0, hyperparameters=small)


def trained(settings, root, seed=0, task="Pendulum-v1"):
    """Returns the run of a short training."""
    return start([Identity(task, seed)], settings, root, QUIET).runs[0]


def steps_evaluated(run):
    return [int(row["step"]) for row in run.evaluations()]


def test_an_interrupted_last_evaluation_is_repeated(settings, tmp_path, monkeypatch):
    evaluate = loop.evaluate
    monkeypatch.setattr(loop, "evaluate", lambda *a, **k: None if a[3] == 60 else evaluate(*a, **k))
    run = trained(settings, tmp_path)
    assert (run.step, run.unfinished, steps_evaluated(run)) == (60, True, [0, 50])
    monkeypatch.undo()
    (run,) = resume([run.path], None, QUIET).runs
    assert (run.step, run.unfinished, steps_evaluated(run)) == (60, False, [0, 50, 60])
    with pytest.raises(MRQError, match="has finished its 60 steps; to train longer, add for example --steps 120"):
        resume([run.path], None, QUIET)
    with pytest.raises(MRQError, match="is at step 60 already; --steps must be more"):
        resume([run.path], 30, QUIET)


def test_finished_runs_do_not_keep_others_from_being_resumed(settings, tmp_path):
    short, longer = (trained(replace(settings, steps=steps), tmp_path, seed) for seed, steps in enumerate((20, 60)))
    RunFolder(short.path).change(steps=30)
    recording = Recording()
    outcome = resume([longer.path, short.path], None, recording)
    assert [run.path for run in outcome.runs] == [short.path]
    assert RunFolder(short.path).step == 30
    assert f"the run in {longer.path} has finished its 60 steps; the others continue." in recording.messages
    with pytest.raises(MRQError, match="has finished its 60 steps"):
        resume([longer.path, short.path], None, QUIET)


def test_runs_that_an_interruption_keeps_from_starting_keep_the_steps_asked_for(settings, tmp_path, monkeypatch):
    paths = [trained(replace(settings, steps=steps), tmp_path, seed).path for seed, steps in enumerate((20, 60))]
    monkeypatch.setattr(runs, "_train", lambda population, evaluated, of, *_: Outcome(of, [], signal.SIGINT))
    assert resume(paths, 80, QUIET).interrupted
    assert [RunFolder(path).settings.steps for path in paths] == [80, 80]


def test_a_checkpoint_that_cannot_be_written_does_not_keep_others_from_being_written(settings, tmp_path):
    paths = [tmp_path / "Pendulum-v1" / f"seed-{seed}" for seed in (0, 1)]

    class PutsAFileInTheWay(Listener):
        def step(self, steps, steps_per_second):
            (paths[0] / "checkpoints").touch()

    identities = [Identity("Pendulum-v1", seed) for seed in (0, 1)]
    with pytest.raises(MRQError, match=r"of step 60 could not be written to .*seed-0.*resume with: .*seed-0 .*seed-1"):
        start(identities, settings, tmp_path, PutsAFileInTheWay())
    assert RunFolder(paths[1]).step == 60


def test_a_fleet_has_all_its_folders_or_none(settings, tmp_path):
    (tmp_path / "MountainCarContinuous-v0").touch()
    identities = [Identity(task, 0) for task in ("Pendulum-v1", "MountainCarContinuous-v0")]
    with pytest.raises(MRQError, match="cannot be made"):
        start(identities, settings, tmp_path, QUIET)
    assert not (tmp_path / "Pendulum-v1" / "seed-0").exists()


def test_what_a_killed_process_left_of_a_folder_is_removed(settings, tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left, in_use, unrelated = (tmp_path / f".seed-0.{what}" for what in (ended.pid, os.getppid(), "notes"))
    for folder in (left, in_use, unrelated):
        folder.mkdir()
        (folder / "evaluations.csv.unfinished").touch()
    create_run_folder(tmp_path / "seed-0", Identity("Pendulum-v1", 0), settings, False, {}, 1).close()
    assert not left.exists()
    assert in_use.exists()
    assert unrelated.exists()


def test_a_checkpoint_that_is_replaced_while_an_environment_is_made_is_still_played(settings, tmp_path, monkeypatch):
    run = trained(settings, tmp_path)
    make = Recipe.make

    def slowly(recipe, **kwargs):
        shutil.rmtree(run.checkpoints, ignore_errors=True)
        return make(recipe, **kwargs)

    monkeypatch.setattr(Recipe, "make", slowly)
    assert len(playing.play(run.path, 2, False, None, "cpu").returns) == 2


def test_an_environment_that_exists_once_per_process_plays_one_episode_after_the_other(settings, tmp_path, monkeypatch):
    run = trained(settings, tmp_path)
    side_by_side = playing.play(run.path, 3, False, None, "cpu").returns
    only = Recipe("Pendulum-v1").make()
    monkeypatch.setattr(Recipe, "make", mock.Mock(side_effect=[only, MRQError("there is one already")]))
    assert playing.play(run.path, 3, False, None, "cpu").returns == pytest.approx(side_by_side)  # batches round


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('"steps": 60', '"steps": 60.5'), "--steps is 60.5; it must be a whole number"),
        (('"batch_size": 16', '"batch_size": 16.5'), "batch_size is 16.5; it must be a whole number"),
        (('"parameters": ', '"parameters": 1' + 400 * "0"), "the number of parameters in .* is a number of"),
        (('"task": "', '"task": "\\ud800'), "has characters that no text can have"),
        (('"seed": 0', '"seed": -1'), r"the seeds are \[-1\]"),
        (('"observation":', '"other":'), "was trained with the observation space None"),
    ],
)
def test_edited_settings_get_one_sentence(settings, tmp_path, change, words):
    run = trained(settings, tmp_path)
    edit(run.path, *change)
    with pytest.raises(MRQError, match=words):
        resume([run.path], 70, QUIET)


def test_a_run_from_before_a_hyperparameter_existed_is_resumed(settings, tmp_path):
    run = trained(settings, tmp_path)
    document = document_of(run.path)
    del document["settings"]["hyperparameters"]["linear_value"]
    (run.path / "run.json").write_text(json.dumps(document))
    assert RunFolder(run.path).settings == replace(settings).completed(["Pendulum-v1"])
    resume([run.path], 65, QUIET)
    assert RunFolder(run.path).step == 65


def test_the_environment_is_part_of_the_run(settings, tmp_path):
    """A pendulum swings for 200 steps, unless it has another limit."""
    made_with = EnvironmentOptions(
        env_kwargs=("g=9.0",),
        eval_env_kwargs=("g=0.0",),
        wrapper=("gymnasium.wrappers:TimeLimit:{'max_episode_steps': 30}",),
    )
    run = trained(replace(settings, environment=made_with), tmp_path)
    assert [float(row["length_mean"]) for row in RunFolder(run.path).evaluations()] == [30] * 3
    assert playing.play(run.path, 2, False, None, "cpu").mean_length == 30
    with mock.patch("gymnasium.make", wraps=gym.make) as make:
        resume([run.path], 65, QUIET)
    assert [call.kwargs["g"] for call in make.call_args_list] == [9.0, 0.0]
    assert RunFolder(run.path).settings.environment == made_with
    edit(run.path, "g=9.0", "g=1.0")
    with pytest.raises(MRQError, match=r"environment, .* are not those of its checkpoint"):
        resume([run.path], 70, QUIET)


def test_evaluations_with_other_spaces_are_refused_before_there_is_a_folder(settings, tmp_path):
    made_with = EnvironmentOptions(eval_env_kwargs=("map_name=8x8",))
    words = (
        r"--eval-env-kwargs give FrozenLake-v1 other spaces than in training: Discrete\(64\) instead of Discrete\(16\);"
    )
    with pytest.raises(MRQError, match=words):
        trained(replace(settings, environment=made_with), tmp_path, task="FrozenLake-v1")
    assert not list(tmp_path.iterdir())
    trained(replace(settings, environment=made_with, evaluate_every=0), tmp_path, task="FrozenLake-v1")


def test_an_environment_that_the_user_names_is_seen_as_the_runs_own(settings, tmp_path):
    view = EnvironmentOptions(history=2, action_history=True)
    run = trained(replace(settings, environment=replace(view, max_episode_steps=30)), tmp_path)
    assert RunFolder(run.path, "gymnasium:Pendulum-v1").recipe().options == view
    assert playing.play(run.path, 1, False, None, "cpu", environment="gymnasium:Pendulum-v1").mean_length == 200
    resume([run.path], 65, QUIET, environment="gymnasium:Pendulum-v1")
    assert RunFolder(run.path).step == 65


def test_an_environment_that_the_user_names_is_told_from_the_runs_own(settings, tmp_path):
    made_with = EnvironmentOptions(env_kwargs=("g=9.0",), max_episode_steps=30, history=2)
    run = trained(replace(settings, environment=made_with), tmp_path)
    other, heard, said = "gymnasium:Pendulum-v1", Recording(), list[str]()
    own = "Pendulum-v1 --env-kwargs g=9.0 --max-episode-steps 30"
    playing.play(run.path, 1, False, None, "cpu", said.append, environment=other)
    assert said == [f"playing in {other} instead of the run's own environment: {own}"]
    resumed = resume([run.path], 65, heard, environment=other).runs
    assert heard.messages[0] == (
        f"Pendulum-v1 (seed 0): training in {other} instead of the run's own environment, which run.json still names: "
        f"{own}"
    )
    assert RunFolder(run.path).settings.environment == made_with
    assert resume_command(resumed).endswith(f"resume {run.path} --env {other}")
    plain = trained(settings, tmp_path / "plain")
    assert not RunFolder(plain.path, "Pendulum-v1").replaced


@pytest.mark.parametrize("masked", [True, False])
def test_masks_of_actions_where_there_were_none_are_refused_and_the_reverse(settings, tmp_path, masked):
    with_masks, without = (f"tests.environments_for_tests:{name}" for name in ("Masked", "Unmasked"))
    trained_in, other = (with_masks, without) if masked else (without, with_masks)
    run = trained(settings, tmp_path, task=trained_in)
    words = (
        "with action masks and the environment now has no" if masked else "with no action masks and .* now has action"
    )
    for call in (
        lambda: playing.play(run.path, 1, False, None, "cpu", environment=other),
        lambda: resume([run.path], 65, QUIET, environment=other),
        lambda: MRQ.load(run.path, env=other),
    ):
        with pytest.raises(MRQError, match=f"was trained {words}"):
            call()
    document = document_of(run.path)
    del document["spaces"]["masks"]  # as in runs that were made before it was recorded
    (run.path / "run.json").write_text(json.dumps(document))
    assert MRQ.load(run.path, trust=True).num_timesteps == 60


def test_runs_of_one_task_with_different_environments_are_resumed_together(settings, tmp_path):
    limits = (20, 40)
    folders = [
        trained(replace(settings, environment=EnvironmentOptions(max_episode_steps=limit)), tmp_path / str(limit)).path
        for limit in limits
    ]
    resume(folders, 65, QUIET)
    assert [float(RunFolder(folder).evaluations()[-1]["length_mean"]) for folder in folders] == list(limits)


def test_evaluations_that_are_removed_during_training_are_written_again(settings, tmp_path):
    class Removing(Listener):
        def evaluation(self, step, evaluations, seconds):
            if step == 20:
                (tmp_path / "Pendulum-v1" / "seed-0" / "evaluations.csv").unlink()

    (run,) = start([Identity("Pendulum-v1", 0)], replace(settings, evaluate_every=20), tmp_path, Removing()).runs
    assert steps_evaluated(RunFolder(run.path)) == [0, 20, 40, 60]


def test_a_run_of_version_0_1_is_resumed_bit_for_bit(settings, tmp_path):
    """Version 0.1 wrote MR.Q's counters beside the others, and no algorithm."""
    new, old = (trained(settings, tmp_path / name).path for name in ("new", "old"))
    document = document_of(old)
    del document["algorithm"], document["settings"]["environment"]
    (old / "run.json").write_text(json.dumps(document))
    written = latest_checkpoint(old / "checkpoints")
    counters = read_counters(written)
    assert set(counters.pop("run")) == {"algorithm", "task", "seed", "hyperparameters", "environment", "envs"}
    assert counters.pop("evaluations")["rows"] == 3
    learners = counters.pop("learner")
    assert learners == {"encoder_updates": 20, "updates": 10}  # one update per step, and those of the first period
    counters |= learners
    assert set(counters) == {
        *("steps", "encoder_updates", "updates", "evaluated_at", "seconds"),
        *("episodes", "over", "episode_return", "next_action", "replay"),
    }
    own = {"task": "Pendulum-v1", "seed": 0, "hyperparameters": asdict(settings.hyperparameters)}
    tensors, arrays = read_tensors(written), read_arrays(written)
    write_checkpoint(old / "checkpoints", tensors, arrays, counters | {"run": own})
    assert playing.play(old, 2, False, None, "cpu") == playing.play(new, 2, False, None, "cpu")
    for path in (new, old):
        resume([path], 85, QUIET)
    assert steps_evaluated(RunFolder(old)) == [0, 50, 60, 85]
    assert_same(old, new)


def test_a_run_in_training_is_trained_by_no_other_process(settings, tmp_path):
    run = trained(settings, tmp_path)
    training = RunFolder(run.path)
    training.lock()
    with pytest.raises(MRQError, match=r"another process is training the run in .*seed-0; wait for it, or stop it"):
        resume([run.path], 65, QUIET)
    training.close()
    resume([run.path], 65, QUIET)
    assert RunFolder(run.path).step == 65


def test_a_run_that_cannot_be_locked_says_so(settings, tmp_path):
    run = trained(settings, tmp_path)
    (run.path / "lock").unlink()
    (run.path / "lock").mkdir()
    with pytest.raises(MRQError, match=r"the run in .*seed-0 cannot be locked: Is a directory\."):
        resume([run.path], 65, QUIET)


def test_runs_resumed_together_keep_their_own_time(settings, tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(loop.time, "monotonic", lambda: now[0])
    for seed, seconds in ((0, 100.0), (1, 7.0)):
        monkeypatch.setattr(loop, "evaluate", _taking(seconds, now, loop.evaluate))
        trained(settings, tmp_path, seed)
        monkeypatch.undo()
        monkeypatch.setattr(loop.time, "monotonic", lambda: now[0])
    first, second = resume([tmp_path / "Pendulum-v1" / f"seed-{seed}" for seed in (0, 1)], 70, QUIET).runs
    # Evaluations at 0, 50 and 60 took their time; a row says how much had passed before it.
    assert [float(row["seconds"]) for row in first.evaluations()] == [0, 100, 200, 300]
    assert [float(row["seconds"]) for row in second.evaluations()] == [0, 7, 14, 21]


def _taking(seconds, now, evaluate):
    def slow(*arguments, **options):
        now[0] += seconds
        return evaluate(*arguments, **options)

    return slow


def test_a_resumed_run_uses_the_machine_settings_that_it_is_given(settings, tmp_path, monkeypatch):
    run = trained(settings, tmp_path)
    asked = []
    monkeypatch.setattr(runs, "train", lambda *arguments: asked.append(arguments[3]))
    machine = replace(settings, workers=1, checkpoint_minutes=30.0, device="cpu", environment_timeout=9.0, compile="on")
    resume([run.path], 65, QUIET, machine=machine)
    assert asked == [replace(machine, steps=65, compile="auto")]


def test_an_environment_that_changes_the_working_directory_does_not_move_its_run(settings, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    monkeypatch.chdir(tmp_path)
    (run,) = start([Identity("tests.environments_for_tests:Leaves", 0)], settings, Path("runs"), QUIET).runs
    assert Path.cwd() == Path("/")
    assert (run.step, steps_evaluated(run)) == (60, [0, 50, 60])
    assert run.path == tmp_path / "runs" / "tests.environments_for_tests-Leaves" / "seed-0"


def test_all_that_is_loaded_comes_from_one_checkpoint(settings, tmp_path, monkeypatch):
    run = trained(settings, tmp_path)
    read = checkpoint.read_tensors

    def trained_meanwhile(path):
        monkeypatch.undo()
        tensors = read(path)
        for steps in (65, 70):
            resume([run.path], steps, QUIET)
        return tensors

    monkeypatch.setattr(checkpoint, "read_tensors", trained_meanwhile)
    with pytest.raises(MRQError, match="000001-step-60 is damaged"):
        run.saved_state(print)
    assert run.step == 70
