"""Run folders from a stranger, and damaged ones: nothing is followed out of them, no code is run, nothing is lost."""

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest

from mrq import MRQ, MRQError
from mrq.interface import Identity
from mrq.report.records import collect
from mrq.training.checkpoint import (
    latest_checkpoint,
    read_arrays,
    read_counters,
    read_tensors,
    step_of,
    write_checkpoint,
)
from mrq.training.evaluations_table import COLUMNS
from mrq.training.listeners.learning_curve import draw_learning_curve
from mrq.training.listeners.listener import Listener
from mrq.training.playing import play
from mrq.training.run_folder import RunFolder
from mrq.training.runs import resume, start
from mrq.training.settings import Settings
from tests.command_line import rows, steps_in, weights
from tests.documents import document_of
from tests.training.recording import Recording

QUIET = Listener()


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Trains a small agent to step 60 and on to 65; returns its folder, which has two checkpoints."""
    from mrq import Hyperparameters

    small = Hyperparameters(
        hidden_width=32, state_embedding=24, state_action_embedding=20, action_embedding=16, batch_size=16,
        target_period=20, random_steps=50, replay_capacity=1_000,
    )  # fmt: skip
    settings = Settings(steps=60, evaluate_every=50, evaluation_episodes=1, workers=0, hyperparameters=small)
    (run,) = start([Identity("Pendulum-v1", 0)], settings, tmp_path_factory.mktemp("original"), QUIET).runs
    resume([run.path], 65, QUIET)
    return run.path


@pytest.fixture
def run(original, tmp_path):
    return shutil.copytree(original, tmp_path / "run")


@pytest.fixture
def outside(tmp_path):
    """Makes files and folders outside the run; they must stay as they are."""
    folder = tmp_path / "outside"
    (folder / "000001-step-5").mkdir(parents=True)
    (folder / "000001-step-5" / "file").write_text("mine")
    (folder / "file").write_text("mine")
    yield folder
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*")) == [
        *("000001-step-5", "000001-step-5/file", "file")
    ]
    assert {path.read_text() for path in folder.rglob("file")} == {"mine"}


def replaced(path, make):
    """Puts something else where a file or folder of the run was."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    make(path)


@pytest.mark.parametrize(
    "name",
    [
        *("run.json.unfinished", "evaluations.csv.unfinished", "learning_curve.png.unfinished", "learning_curve.png"),
        *("checkpoints/unfinished", "tensorboard", "checkpoints", "lock", "run.json", "evaluations.csv"),
    ],
)
@pytest.mark.parametrize("target", ["file", ".", "nothing"])
def test_no_link_is_followed_out_of_a_run_folder(run, outside, name, target):
    replaced(run / name, lambda path: path.symlink_to(outside / target))
    in_the_way = name in ("tensorboard", "checkpoints", "lock", "run.json", "evaluations.csv")
    if in_the_way:
        with pytest.raises(MRQError, match="symbolic link"):
            resume([run], 70, QUIET)
    else:
        resume([run], 70, QUIET)
        assert (RunFolder(run).step, steps_in(run)) == (70, [0, 50, 60, 65, 70])
        assert not any(path.is_symlink() for path in run.rglob("*"))


@pytest.mark.parametrize("name", ["tensorboard", "checkpoints"])
def test_a_file_in_place_of_a_folder_is_refused_before_anything_changes(run, name):
    replaced(run / name, lambda path: path.write_text("mine"))
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(MRQError, match=f"{name} is not a folder; remove it"):
        resume([run], 70, QUIET)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_linked_checkpoint_is_none(run, tmp_path):
    latest = latest_checkpoint(run / "checkpoints")
    latest.rename(tmp_path / "elsewhere")
    latest.symlink_to(tmp_path / "elsewhere")
    assert RunFolder(run).step == 60


@pytest.mark.parametrize("name", ["run.json", "evaluations.csv", "lock", "checkpoint.json", "learner.safetensors"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_not_a_regular_file_is_refused(run, name, make):
    for place in [run] if name in os.listdir(run) else list((run / "checkpoints").iterdir()):
        replaced(place / name, make)
    with pytest.raises(MRQError):
        resume([run], 70, QUIET)


def test_files_beyond_reason_are_refused(run):
    for name in ("run.json", "evaluations.csv"):
        whole = (run / name).read_bytes()
        os.truncate(run / name, 10**12)  # its end is a hole, so it takes no room
        with pytest.raises(MRQError, match=rf"{name} cannot be read \(.*it is larger than .* MB"):
            resume([run], 70, QUIET)
        (run / name).write_bytes(whole)
    for checkpoint in (run / "checkpoints").iterdir():
        os.truncate(checkpoint / "learner.safetensors", 10**13)
    with pytest.raises(MRQError, match=r"damaged: learner\.safetensors"):
        play(run, 1, True, None, "cpu")


# Code


@pytest.fixture
def strange(run, tmp_path, monkeypatch):
    """Returns a run that names a module, which lies in the present folder and leaves a trace when it is imported."""
    document = document_of(run)
    document["task"] = "strangers_module:make"
    (run / "run.json").write_text(json.dumps(document))
    text = (run / "evaluations.csv").read_text()
    (run / "evaluations.csv").write_text(text.replace("Pendulum-v1", "strangers_module:make"))

    def rename(tensors, arrays, counters):
        counters["run"]["task"] = document["task"]
        del counters["evaluations"]

    forge(run, rename)
    (run / "strangers_module.py").write_text(
        "import pathlib, gymnasium\n"
        f"pathlib.Path({str(tmp_path / 'trace')!r}).touch()\n"
        "def make(**options): return gymnasium.make('Pendulum-v1', **options)\n"
    )
    monkeypatch.chdir(run)
    yield run
    sys.modules.pop("strangers_module", None)
    sys.path[:] = [place for place in sys.path if place != str(run)]


def test_a_run_folder_runs_no_code_unless_it_is_trusted(strange, tmp_path):
    for call in (
        lambda: play(strange, 1, True, None, "cpu"),
        lambda: resume([strange], 70, QUIET),
        lambda: MRQ.load(strange),
    ):
        with pytest.raises(MRQError, match=r"with the module strangers_module, which .* add --trust or --env"):
            call()
    assert not (tmp_path / "trace").exists()
    play(strange, 1, True, None, "cpu", environment="Pendulum-v1")
    MRQ.load(strange, env="Pendulum-v1")
    resume([strange], 70, QUIET, environment="Pendulum-v1")
    assert RunFolder(strange).task == "strangers_module:make"
    assert not (tmp_path / "trace").exists()
    play(strange, 1, True, None, "cpu", trust=True)
    assert MRQ.load(strange, trust=True).num_timesteps == 70
    assert (tmp_path / "trace").exists()


def test_an_environment_that_does_not_fit_is_refused(run):
    with pytest.raises(MRQError, match="was trained with the observation space"):
        resume([run], 70, QUIET, environment="CartPole-v1")


# Forged content, whose digests are right


def forge(run, change):
    """Replaces a run's checkpoints by one with changed content."""
    latest = latest_checkpoint(run / "checkpoints")
    tensors, arrays, counters = dict(read_tensors(latest)), dict(read_arrays(latest)), read_counters(latest)
    change(tensors, arrays, counters)
    written = write_checkpoint(run / "checkpoints", tensors, arrays, counters, previous=latest)
    shutil.rmtree(latest)
    assert [path.name for path in (run / "checkpoints").iterdir()] == [written.name]


def first_weight(tensors):
    return next(name for name in sorted(tensors) if name.startswith("value."))


@pytest.mark.parametrize(
    "change",
    [
        lambda t, a, c: t.update({first_weight(t): np.zeros(1, np.float32)}),  # which could be stretched
        lambda t, a, c: t.update({first_weight(t): t[first_weight(t)].astype(np.float64)}),
        lambda t, a, c: t.update({first_weight(t): t[first_weight(t)] * np.float32("nan")}),
        lambda t, a, c: t.pop(first_weight(t)),
    ],
    ids=["shape", "dtype", "nan", "missing"],
)
def test_forged_networks_are_refused(run, change):
    forge(run, change)
    for call in (
        lambda: resume([run], 70, QUIET),
        lambda: play(run, 1, True, None, "cpu"),
        lambda: MRQ.load(run),
    ):
        with pytest.raises(MRQError, match=r"checkpoint in .* (does not fit its run\.json|is from another version)"):
            call()
    assert steps_in(run) == [0, 50, 60, 65]


@pytest.mark.parametrize(
    "change",
    [
        lambda t, a, c: t.update(reward_scale=np.float32("inf") * np.ones((), np.float32)),
        lambda t, a, c: c.update(learner={"encoder_updates": -1, "updates": -1}),
        lambda t, a, c: c.update(learner={"encoder_updates": 2, "updates": 10**30}),
        lambda t, a, c: c.update(learner=7),
    ],
    ids=["infinite", "negative", "huge", "kind"],
)
def test_what_only_training_needs_is_refused_there_if_it_is_forged(run, change):
    forge(run, change)
    for call in (lambda: resume([run], 70, QUIET), lambda: MRQ.load(run)):
        with pytest.raises(MRQError, match=r"checkpoint in .* (does not fit its run\.json|is from another version)"):
            call()
    assert np.isfinite(play(run, 1, True, None, "cpu").mean)
    assert steps_in(run) == [0, 50, 60, 65]


@pytest.mark.parametrize(
    "change",
    [
        lambda t, a, c: a.update({"rewards-0": np.zeros(1, np.float32)}),
        lambda t, a, c: a.update({"rewards-0": a["rewards-0"] * np.float32("nan")}),
        lambda t, a, c: a.pop("actions-0"),
        lambda t, a, c: a.update({"frames-0": a["frames-0"].astype(np.uint8)}),
        lambda t, a, c: a.update({"priorities-0": a["priorities-0"] - 5}),
        lambda t, a, c: a.update(priority_sums=a["priority_sums"] * 1_000),
        lambda t, a, c: a.update({"preceding-0": a["preceding-0"] + np.uint8(200)}),
        lambda t, a, c: c.update(steps=10**9),
        lambda t, a, c: c.update(evaluated_at=10**9),
        lambda t, a, c: c.update(seconds=float("nan")),
        lambda t, a, c: c.update(seconds="long"),
        lambda t, a, c: c.update(episodes=-1),
        lambda t, a, c: c.update(over=3),
        lambda t, a, c: c.update(next_action=[0.0] * 100),
        lambda t, a, c: c.update(replay={"cursor": 10**6, "filled": 66, "episode_steps": 5}),
        lambda t, a, c: c.update(replay={"cursor": 65, "filled": -1, "episode_steps": 5}),
        lambda t, a, c: c.update(replay={"cursor": 65, "filled": 66, "episode_steps": 10**6}),
        lambda t, a, c: c.update(replay=None),
        lambda t, a, c: c.update(evaluations=7),
        lambda t, a, c: c.update(evaluations={"rows": "x", "digest": "x"}),
        lambda t, a, c: c.update(evaluations={"rows": "all"}),
        lambda t, a, c: c.update(evaluations={"digest": ""}),
    ],
)
def test_forged_states_are_refused(run, change):
    forge(run, change)
    with pytest.raises(
        MRQError, match=r"(does not fit its run\.json|another version|not those of its|at step 1,000,000,000 already)"
    ):
        resume([run], 70, QUIET)
    assert steps_in(run) == [0, 50, 60, 65]


def test_a_run_may_have_begun_more_episodes_than_it_took_steps(run):
    """As where its environment failed at its first step, and again whenever it was resumed."""
    forge(run, lambda tensors, arrays, counters: counters.update(episodes=100))
    assert any("a new one begins" in sentence for sentence in resumed(run))
    assert RunFolder(run).step == 70


@pytest.mark.parametrize(
    ("field", "value"),
    [("seed", -1), ("seed", 0.5), ("seed", "0"), ("settings", None), ("settings", {"steps": -1}), ("spaces", 3)],
)
def test_forged_settings_are_refused(run, field, value):
    document = document_of(run)
    (run / "run.json").write_text(json.dumps(document | {field: value}))
    with pytest.raises(MRQError):
        resume([run], 70, QUIET)


# Damage


def resumed(run, steps=70):
    """Resumes a run; returns what was said."""
    recording = Recording()
    resume([run], steps, recording)
    return recording.messages


def test_where_the_latest_checkpoint_is_damaged_the_one_before_is_resumed_bit_for_bit(run, original, tmp_path):
    undamaged = shutil.copytree(original, tmp_path / "undamaged")
    learner = latest_checkpoint(run / "checkpoints") / "learner.safetensors"
    content = bytearray(learner.read_bytes())
    content[-5] ^= 4
    learner.unlink()
    learner.write_bytes(content)
    said = []
    assert play(run, 1, True, None, "cpu", said.append).lengths == [200]
    (sentence,) = said
    assert "is damaged: learner.safetensors" in sentence
    assert sentence.endswith("; the one before it, of step 60, is used.")
    assert sentence in resumed(run)
    resumed(undamaged)
    assert [int(step) for step in steps_in(run)] == [0, 50, 60, 70], "the damaged checkpoint had evaluated at 65"
    assert rows(run)[-1] == rows(undamaged)[-1]
    ours, theirs = weights(run), weights(undamaged)
    assert all(tensor.equal(theirs[name]) for name, tensor in ours.items())
    assert [step_of(path) for path in sorted((run / "checkpoints").iterdir())] == [60, 70], "the damaged one is gone"


def test_where_both_checkpoints_are_damaged_nothing_is_changed(run):
    for checkpoint in (run / "checkpoints").iterdir():
        (checkpoint / "learner.safetensors").unlink()
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(MRQError, match=r"is damaged: learner\.safetensors is missing, .*; restore it from a copy"):
        resume([run], 70, QUIET)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("task,seed", "tasj,seed"), "its first line is not task,seed"),
        (lambda text: text.replace("0,50,", "0,5,0,"), "a row has 9 cells"),
        (lambda text: text.replace("0,50,", "0,x,"), "invalid literal"),
        (lambda text: text.replace("0,50,", "0,70,"), "stands in the wrong place"),
        (lambda text: text.replace("0,50,", "1,50,"), "are of another run than run.json"),
        (lambda text: text.replace(",200,1,", ",201,1,", 1), "has changed since the checkpoint was written"),
        (lambda text: "".join(line for line in text.splitlines(True) if "0,50," not in line), "has changed since"),
        (lambda text: text[: text.rindex("Pendulum-v1")], "has changed since"),
        (lambda text: text[:-1], "has changed since"),
        (lambda text: "", "has changed since"),
    ],
    ids=["header", "cells", "step", "order", "run", "return", "row", "last row", "torn", "empty"],
)
def test_damaged_evaluations_are_noticed_and_kept(run, change, words):
    """The rows are those of steps 0, 50, 60 and 65."""
    changed = change((run / "evaluations.csv").read_text())
    (run / "evaluations.csv").write_text(changed)
    with pytest.raises(MRQError, match=words):
        resume([run], 70, QUIET)
    assert (run / "evaluations.csv").read_text() == changed


@pytest.mark.parametrize(
    ("old", "new"),
    [('"steps": 65', '"steps": 97'), ('"evaluate_every": 50', '"evaluate_every": 10'), ('"numpy": "', '"numpy": "9')],
)
def test_a_changed_run_json_is_noticed(run, old, new):
    text = (run / "run.json").read_text()
    assert old in text
    (run / "run.json").write_text(text.replace(old, new))
    for call in (lambda: resume([run], 70, QUIET), lambda: play(run, 1, True, None, "cpu")):
        with pytest.raises(MRQError, match=r"run\.json cannot be read \(it has changed since .*, remove its digest"):
            call()
    said = []
    assert collect([run], said.append) == []
    assert "it has changed since mrq wrote it" in said[0]
    (run / "run.json").write_text(text)
    resumed(run)
    resumed(run, 75)


def test_a_run_json_that_is_damaged_in_training_gets_a_sentence(run):
    open_run = RunFolder(run)
    (run / "run.json").write_text("{")
    with pytest.raises(MRQError, match=r"run\.json cannot be read"):
        open_run.change(steps=100)
    assert (run / "run.json").read_text() == "{"


@pytest.mark.parametrize("header", [b"(" * 9_000, b"{'descr': '<f4', 'fortran_order': False, 'shape': (2**62, 8), }"])
def test_a_forged_header_of_an_array_is_damage(run, header, recwarn):
    latest = latest_checkpoint(run / "checkpoints")
    content = b"\x93NUMPY\x01\x00" + (len(header) + 1).to_bytes(2, "little") + header + b"\n" + bytes(100)
    (latest / "rewards-0.npy").write_bytes(content)
    document = json.loads((latest / "checkpoint.json").read_text())
    document["files"]["rewards-0.npy"] = hashlib.sha256(content).hexdigest()
    del document["digest"]
    document["digest"] = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    (latest / "checkpoint.json").write_text(json.dumps(document))
    said = Recording()
    resume([run], 70, said)
    assert any("rewards-0.npy is missing, cut short or changed" in message for message in said.messages)
    assert RunFolder(run).step == 70
    assert not [warning for warning in recwarn if warning.category is RuntimeWarning]


def test_a_picture_that_is_a_folder_is_refused_before_training(run):
    replaced(run / "learning_curve.png", Path.mkdir)
    with pytest.raises(MRQError, match=r"learning_curve\.png is a folder; remove it"):
        resume([run], 70, QUIET)
    assert RunFolder(run).step == 65


def test_settings_for_matplotlib_in_the_current_folder_have_no_effect(run):
    picture = (run / "learning_curve.png").read_bytes()
    with matplotlib.rc_context({"text.usetex": True, "figure.facecolor": "black"}):  # LaTeX runs what a preamble says
        draw_learning_curve(RunFolder(run))
    assert (run / "learning_curve.png").read_bytes() == picture


def test_damaged_evaluations_are_not_reported(run):
    (record,) = collect([run], pytest.fail)
    assert record.steps.tolist() == [0, 50, 60, 65]
    text = (run / "evaluations.csv").read_text()
    (run / "evaluations.csv").write_text(text.replace(",200,1,", ",201,1,", 1))
    said = []
    assert collect([run], said.append) == []
    assert "evaluations.csv has changed since the checkpoint was written" in said[0]
    (run / "evaluations.csv").write_text(text)
    shutil.rmtree(run / "checkpoints")
    (record,) = collect([run], pytest.fail)
    assert record.steps.tolist() == [0, 50, 60, 65], "a report does not need checkpoints"


def test_a_last_row_that_a_kill_cut_short_is_dropped(run):
    with (run / "evaluations.csv").open("a") as file:
        file.write("Pendulum-v1,0,70,-12")
    resumed(run)
    assert steps_in(run) == [0, 50, 60, 65, 70]


def test_without_evaluations_a_run_is_resumed_with_those_that_follow(run):
    (run / "evaluations.csv").unlink()
    resumed(run)
    assert (RunFolder(run).step, steps_in(run)) == (70, [70])
    resumed(run, 75)
    assert steps_in(run) == [70, 75]


def test_where_checkpoints_were_deleted_a_run_does_not_begin_again_unasked(run):
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(MRQError, match=r"evaluated up to step 65, but its checkpoints are gone; .* begin again"):
        resume([run], 70, QUIET)
    assert steps_in(run) == [0, 50, 60, 65]
    (run / "evaluations.csv").unlink()
    assert "resuming at step 0 of 70" in resumed(run)
    assert steps_in(run) == [0, 50, 70]


def test_a_run_whose_only_checkpoint_is_of_step_0_is_resumed_though_it_was_evaluated_later(run, tmp_path):
    MRQ("Pendulum-v1", hyperparameters=RunFolder(run).settings.hyperparameters).save(tmp_path / "saved")
    saved = RunFolder(tmp_path / "saved")
    saved.record(dict.fromkeys(COLUMNS, "1") | {"task": saved.task, "seed": "0"})  # at step 1, and then a kill
    assert "resuming at step 0 of 2" in resumed(saved.path, 2)


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again(tmp_path, run):
    shutil.rmtree(run / "checkpoints")
    document = document_of(run)
    assert document["saved"] is True
    (run / "run.json").write_text(json.dumps(document | {"saved": False}))
    assert "resuming at step 0 of 70" in resumed(run)
    assert steps_in(run) == [0, 50, 70]
