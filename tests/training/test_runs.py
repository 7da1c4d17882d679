"""Starting and resuming, in this process."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from mrq import MRQError
from mrq.interface import Agent
from mrq.training import loop, playing, run_folder, runs
from mrq.training.run_folder import RunFolder
from mrq.training.runs import Outcome, resume, start
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


def test_finished_runs_among_those_given_keep_no_other_from_going_on(settings, tmp_path):
    short, longer = (
        start([Agent("Pendulum-v1", seed)], replace(settings, steps=steps), tmp_path, quiet).runs[0]
        for seed, steps in enumerate((20, 60))
    )
    RunFolder(short.path).extend(30)
    told = []
    outcome = resume([longer.path, short.path], None, told.append)
    assert [run.path for run in outcome.runs] == [short.path]
    assert RunFolder(short.path).step == 30
    assert f"the run in {longer.path} has finished its 60 steps; the others go on." in told
    with pytest.raises(MRQError, match="has finished its 60 steps"):
        resume([longer.path, short.path], None, quiet)


def test_what_an_interruption_does_not_let_begin_keeps_the_steps_asked_for(settings, tmp_path, monkeypatch):
    made = [
        start([Agent("Pendulum-v1", seed)], replace(settings, steps=steps), tmp_path, quiet).runs[0].path
        for seed, steps in enumerate((20, 60))
    ]
    monkeypatch.setattr(runs, "_train", lambda population, evaluated, of, *_: Outcome(of, [], True))
    assert resume(made, 80, quiet).interrupted
    assert [RunFolder(path).settings.steps for path in made] == [80, 80]


def test_a_checkpoint_that_cannot_be_written_keeps_no_other_from_being_written(settings, tmp_path):
    paths = [tmp_path / "Pendulum-v1" / f"seed-{seed}" for seed in (0, 1)]

    def put_a_file_in_the_way(_):
        (paths[0] / "checkpoints").touch()

    agents = [Agent("Pendulum-v1", seed) for seed in (0, 1)]
    with pytest.raises(MRQError, match=r"of step 60 could not be written to .*seed-0.*go on with: .*seed-0 .*seed-1"):
        start(agents, settings, tmp_path, quiet, put_a_file_in_the_way)
    assert RunFolder(paths[1]).step == 60


def test_a_fleet_has_all_its_folders_or_none(settings, tmp_path):
    (tmp_path / "MountainCarContinuous-v0").touch()
    agents = [Agent(task, 0) for task in ("Pendulum-v1", "MountainCarContinuous-v0")]
    with pytest.raises(MRQError, match="cannot be made"):
        start(agents, settings, tmp_path, quiet)
    assert not (tmp_path / "Pendulum-v1" / "seed-0").exists()


def test_a_checkpoint_replaced_while_an_environment_is_made_is_played_all_the_same(settings, tmp_path, monkeypatch):
    (run,) = start([Agent("Pendulum-v1", 0)], settings, tmp_path, quiet).runs
    make = playing.make_environment

    def slowly(*arguments, **options):
        shutil.rmtree(run.checkpoints, ignore_errors=True)
        return make(*arguments, **options)

    monkeypatch.setattr(playing, "make_environment", slowly)
    assert len(playing.play(run.path, 2, False, None, "cpu").returns) == 2


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("run.json", ('"steps": 60', '"steps": 60.5'), "--steps is 60.5; it must be a whole number"),
        ("run.json", ('"batch_size": 16', '"batch_size": 16.5'), "batch_size is 16.5; it must be a whole number"),
        ("run.json", ('"observation":', '"other":'), "was trained with the observation space None"),
        ("evaluations.csv", (",200,1,", ",,1,"), "evaluations.csv cannot be read"),
    ],
)
def test_edited_files_get_one_sentence(settings, tmp_path, file, change, words):
    (run,) = start([Agent("Pendulum-v1", 0)], settings, tmp_path, quiet).runs
    text = (run.path / file).read_text()
    assert change[0] in text
    (run.path / file).write_text(text.replace(*change))
    with pytest.raises(MRQError, match=words):
        resume([run.path], 70, quiet)


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
