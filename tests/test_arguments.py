"""Arguments that no command can use: each gets one sentence, and leaves nothing behind."""

import os
import shutil
import sys

import pytest

from mrq import MRQ, MRQError
from mrq.algorithms.mrq.hyperparameters import Hyperparameters
from mrq.cli import main
from mrq.interface import Identity
from mrq.training.listeners.listener import Listener
from mrq.training.playing import play
from mrq.training.runs import identities_of, start
from mrq.training.settings import Settings
from tests.command_line import steps_in

SMALL = Hyperparameters(
    hidden_width=16, state_embedding=8, state_action_embedding=8, action_embedding=8, batch_size=4,
    target_period=5, random_steps=10, replay_capacity=100,
)  # fmt: skip
NOT_UTF8 = os.fsdecode(b"not-utf8-\xff")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Trains a tiny agent for 12 steps; returns its folder."""
    settings = Settings(steps=12, evaluate_every=10, evaluation_episodes=1, workers=0, hyperparameters=SMALL)
    (run,) = start([Identity("Pendulum-v1", 0)], settings, tmp_path_factory.mktemp("original"), Listener()).runs
    return run.path


@pytest.fixture
def folder(original, tmp_path, monkeypatch):
    """Makes the present folder one with a run, a file and a link to itself."""
    shutil.copytree(original, tmp_path / "run")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a command in this process; returns its exit status and what it printed."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["mrq", *map(str, arguments)])
        try:
            main()
            status = 0
        except SystemExit as end:
            status = end.code
        return status, *capsys.readouterr()

    return run


LONG = 300 * "a"
REFUSED = [
    (["train", "Pendulum-v1", "--runs", ""], "--runs is empty; give it a value, or leave it out."),
    (["evaluate", "run", "--env="], "--env is empty; give it a value, or leave it out."),
    (["report", "run", ""], "an argument is empty; give it a value, or leave it out."),
    (["train", "Pendulum-v1", "--algorithm", "-1"], "there is no algorithm '-1'"),
    (["speed", "--algorithm", "-"], "there is no algorithm '-'"),
    (["train", "Pendulum-v1", "--runs", "s3://bucket/runs"], "s3://bucket/runs is an address, which needs `mrq bench"),
    (["train", "Pendulum-v1", "--runs", "file"], "file is not a folder; give --runs one."),
    (["train", "Pendulum-v1", "--runs", "loop"], "loop is not a folder; give --runs one."),
    (["train", "Pendulum-v1", "--runs", "x\0y"], r"the argument 'x\x00y' has characters that no name can have"),
    (["train", "Pendulum-v1", "--runs", "\ud800"], r"the argument '\ud800' has characters that no name can have"),
    (["train", NOT_UTF8], r"the task 'not-utf8-\udcff' is empty or has characters that no text can have"),
    (["train", "Pendulum-v1", "--steps", "9" * 100], "--steps is a number of more than 30 digits; it must be between"),
    (["train", "Pendulum-v1", "--seed", str(2**64)], "the seeds are [18,446,744,073,709,551,616]; they must be"),
    (["train", "Pendulum-v1", "--seeds", *range(10_001)], "there are 10,001 seeds; give at most 10,000."),
    (["train", "Pendulum-v1", "Acrobot-v1", "--seeds", *range(6_000)], "there are 12,000 agents; give at most 10,000"),
    (["train", "Pendulum-v1", "--workers", "1001"], "--workers is 1,001; it must be between 0 and 1,000."),
    (["train", "Pendulum-v1", "--evaluation-episodes", "100001"], "--evaluation-episodes is 100,001; it must be"),
    (["speed", "--agents", "10001"], "--agents is 10,001; it must be between 1 and 10,000."),
    (["evaluate", "run", "--episodes", "0"], "--episodes is 0; it must be between 1 and 100,000."),
    (["evaluate", "run", "--video", "s3://bucket/x.gif"], "s3:/bucket/x.gif cannot be written: it is an address"),
    (["evaluate", "loop"], "Too many levels of symbolic links"),
    (["evaluate", LONG], "File name too long"),
    (["evaluate", "file"], "file is not a folder; give a run folder"),
    (["resume", "run", "--steps", "0"], "--steps is 0; it must be between 1 and 10,000,000,000."),
    (["resume", "run", "--steps", str(2**63)], "--steps is 9,223,372,036,854,775,808; it must be between"),
    (["resume", "loop"], "Too many levels of symbolic links"),
    (["bench", "gym", "--runs", "loop"], "loop is not a folder; give --runs one."),
    (["report", "run", "--csv", "loop/x.csv"], "loop/x.csv cannot be written: there is no folder loop."),
    (["report", "run", "--csv", "s3://bucket/x.csv"], "s3:/bucket/x.csv cannot be written: it is an address"),
    (["report", "run", "--figures", "s3://"], "s3: cannot be written: it is an address"),
    (["report", "run", "--figures", "loop"], "File exists; choose another --figures."),
    (["report", "run", "--html", LONG], "File name too long"),
    (["report", "run", "--external", "loop"], "loop cannot be read: Too many levels of symbolic links."),
    (["report", "loop"], "there is no folder loop"),
]


@pytest.mark.parametrize(("arguments", "sentence"), REFUSED, ids=[" ".join(map(ascii, a))[:60] for a, _ in REFUSED])
def test_each_gets_one_sentence_and_leaves_nothing_behind(folder, run, arguments, sentence):
    before = sorted(os.listdir(folder))
    status, _, err = run(*arguments)
    assert (status, err.count("\n")) == (1, 1)
    assert sentence in err
    assert sorted(os.listdir(folder)) == before


def test_a_run_whose_name_is_not_utf8_is_played_and_reported(folder, run):
    (folder / "run").rename(folder / NOT_UTF8)
    assert run("evaluate", NOT_UTF8, "--episodes", "1", "--video", f"{NOT_UTF8}.gif")[0] == 0
    assert (folder / f"{NOT_UTF8}.gif").stat().st_size > 0
    outputs = {option: f"out-{NOT_UTF8}{option}" for option in ("--html", "--markdown", "--csv", "--figures")}
    assert run("report", NOT_UTF8, *(word for pair in outputs.items() for word in pair))[0] == 0
    assert all((folder / name).exists() for name in outputs.values())


def test_training_in_a_folder_whose_name_is_not_utf8_is_refused(folder, run):
    (folder / "run").rename(folder / NOT_UTF8)
    for arguments in (["resume", NOT_UTF8, "--steps", "14"], ["train", "Pendulum-v1", "--runs", NOT_UTF8]):
        status, _, err = run(*arguments)
        assert (status, "is not UTF-8, so TensorBoard cannot write there; rename it" in err) == (1, True)
    assert steps_in(folder / NOT_UTF8) == [0, 10, 12]
    agent = MRQ("Pendulum-v1", hyperparameters=SMALL)
    with pytest.raises(MRQError, match="is not UTF-8"):
        agent.save(folder / NOT_UTF8 / "new")
    with pytest.raises(MRQError, match="has a character that no name can have"):
        agent.save("x\0y")
    assert not (folder / NOT_UTF8 / "new").exists()


def test_a_looping_link_is_replaced_by_the_file_that_is_written(folder, run):
    assert run("report", "run", "--csv", "loop")[0] == 0
    assert (folder / "loop").read_text().startswith("suite,")


@pytest.mark.parametrize("name", ["", "\ud800", NOT_UTF8])
def test_a_task_that_no_file_can_hold_is_refused_from_python_too(name):
    with pytest.raises(MRQError, match="is empty or has characters that no text can have"):
        identities_of([name], (0,))
    with pytest.raises(MRQError, match="is empty or has characters that no text can have"):
        MRQ("Pendulum-v1", task=name)


def test_an_empty_environment_is_not_the_one_that_the_folder_names(folder):
    with pytest.raises(MRQError, match="there is no environment ''"):
        play(folder / "run", 1, True, None, "cpu", environment="")
