"""Starting and resuming, in this process."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from mrq import MRQError
from mrq.interface import Agent
from mrq.training import loop, run_folder, runs
from mrq.training.run_folder import RunFolder
from mrq.training.runs import resume, start
from mrq.training.settings import Settings


def quiet(line):
    pass


@pytest.fixture
def settings(small):
    return Settings(steps=60, evaluate_every=50, evaluation_episodes=1, workers=0, hyperparameters=small)


def steps_evaluated(run):
    return [int(row["step"]) for row in run.evaluations()]


def test_an_interrupted_last_evaluation_is_made_up_for(settings, tmp_path, monkeypatch):
    evaluate = loop.evaluate
    monkeypatch.setattr(loop, "evaluate", lambda *a, **k: None if a[3] == 60 else evaluate(*a, **k))
    (run,) = start([Agent("Pendulum-v1", 0)], settings, tmp_path, quiet).runs
    assert (run.step, run.unfinished, steps_evaluated(run)) == (60, True, [0, 50])
    monkeypatch.undo()
    (run,) = resume([run.path], None, quiet).runs
    assert (run.step, run.unfinished, steps_evaluated(run)) == (60, False, [0, 50, 60])
    with pytest.raises(MRQError, match="has finished its 60 steps; go on with more, such as --steps 120"):
        resume([run.path], None, quiet)
    with pytest.raises(MRQError, match="has come to step 60 already; --steps must be more"):
        resume([run.path], 30, quiet)


def test_a_run_from_before_a_hyperparameter_existed_goes_on(settings, tmp_path):
    (run,) = start([Agent("Pendulum-v1", 0)], settings, tmp_path, quiet).runs
    document = json.loads((run.path / "run.json").read_text())
    del document["settings"]["hyperparameters"]["linear_value"]
    (run.path / "run.json").write_text(json.dumps(document))
    assert RunFolder(run.path).settings == replace(settings).completed(["Pendulum-v1"])
    resume([run.path], 65, quiet)
    assert RunFolder(run.path).step == 65


def test_a_run_in_training_is_trained_by_no_other_process(settings, tmp_path):
    (run,) = start([Agent("Pendulum-v1", 0)], settings, tmp_path, quiet).runs
    training = RunFolder(run.path)
    training.lock()
    with pytest.raises(MRQError, match=r"another process is training the run in .*seed-0; wait for it, or stop it"):
        resume([run.path], 65, quiet)
    training.close()
    resume([run.path], 65, quiet)
    assert RunFolder(run.path).step == 65


def test_a_run_that_cannot_be_locked_says_so(settings, tmp_path):
    (run,) = start([Agent("Pendulum-v1", 0)], settings, tmp_path, quiet).runs
    (run.path / "lock").unlink()
    (run.path / "lock").mkdir()
    with pytest.raises(MRQError, match=r"the run in .*seed-0 cannot be locked: Is a directory\."):
        resume([run.path], 65, quiet)


def test_runs_resumed_together_keep_their_own_time(settings, tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(loop.time, "monotonic", lambda: now[0])
    for seed, seconds in ((0, 100.0), (1, 7.0)):
        monkeypatch.setattr(loop, "evaluate", _taking(seconds, now, loop.evaluate))
        start([Agent("Pendulum-v1", seed)], settings, tmp_path, quiet)
        monkeypatch.undo()
        monkeypatch.setattr(loop.time, "monotonic", lambda: now[0])
    first, second = resume([tmp_path / "Pendulum-v1" / f"seed-{seed}" for seed in (0, 1)], 70, quiet).runs
    # Evaluations at 0, 50 and 60 took their time; a row tells how much had passed before it.
    assert [float(row["seconds"]) for row in first.evaluations()] == [0, 100, 200, 300]
    assert [float(row["seconds"]) for row in second.evaluations()] == [0, 7, 14, 21]


def _taking(seconds, now, evaluate):
    def slow(*arguments, **options):
        now[0] += seconds
        return evaluate(*arguments, **options)

    return slow


def test_a_run_goes_on_as_the_machine_it_is_on_asks(settings, tmp_path, monkeypatch):
    (run,) = start([Agent("Pendulum-v1", 0)], settings, tmp_path, quiet).runs
    asked = []
    monkeypatch.setattr(runs, "train", lambda *arguments: asked.append(arguments[3]))
    machine = replace(settings, workers=1, checkpoint_minutes=30.0, device="cpu", environment_timeout=9.0, compile="on")
    resume([run.path], 65, quiet, machine=machine)
    assert asked == [replace(machine, steps=65, compile="auto")]


def test_an_environment_that_changes_the_present_folder_takes_no_run_with_it(settings, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    monkeypatch.chdir(tmp_path)
    (run,) = start([Agent("tests.environments_for_tests:Leaves", 0)], settings, Path("runs"), quiet).runs
    assert Path.cwd() == Path("/")
    assert (run.step, steps_evaluated(run)) == (60, [0, 50, 60])
    assert run.path == tmp_path / "runs" / "tests.environments_for_tests-Leaves" / "seed-0"


def test_what_is_loaded_is_of_one_checkpoint(settings, tmp_path, monkeypatch):
    (run,) = start([Agent("Pendulum-v1", 0)], settings, tmp_path, quiet).runs
    read = run_folder.read_arrays

    def trained_meanwhile(checkpoint):
        monkeypatch.undo()
        arrays = read(checkpoint)
        resume([run.path], 65, quiet)
        return arrays

    monkeypatch.setattr(run_folder, "read_arrays", trained_meanwhile)
    with pytest.raises(MRQError, match="000001-step-60 is damaged"):
        run.saved_state()
    assert run.step == 65
