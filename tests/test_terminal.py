"""What reaches a terminal, whatever a task, a path or an error contains."""

import re

import pytest

from mrq.algorithms.registry import default_algorithm
from mrq.benchmark.matrix import RunState, jobs
from mrq.benchmark.view import View
from mrq.interface import Identity
from mrq.terminal import Terminal, refuse, say, show
from mrq.training.listeners.listener import Training
from mrq.training.listeners.progress_bar import ProgressBar
from mrq.training.settings import Settings
from tests.hostile import EVERYTHING, HOSTILE

OURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\n]")  # what rich needs to draw: colours, and where the cursor goes


@pytest.fixture
def terminal(monkeypatch):
    """Makes rich draw as on a terminal."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "2000")


def test_a_sentence_is_one_printable_line(capsys):
    say(f"{EVERYTHING}!")
    Terminal().print(f"{EVERYTHING}!")
    with pytest.raises(SystemExit):
        refuse(f"{EVERYTHING}!")
    printed = capsys.readouterr()
    said, drawn, rest = printed.out.split("\n")
    refused, nothing = printed.err.split("\n")
    assert said.isprintable()
    assert "\N{REPLACEMENT CHARACTER}[2J" in said
    assert said.endswith("1+1!")
    assert (drawn, refused, rest, nothing) == (said, f"mrq: {said}", "", "")


def test_words_in_brackets_and_colons_are_no_styles(capsys):
    Terminal().print(HOSTILE["styles"])
    assert capsys.readouterr().out == f"{HOSTILE['styles']}\n"


def test_a_table_has_one_line_per_row_in_aligned_columns(capsys):
    show([["task", "steps"], ["a\n\x1b[2Jb", "5"]])
    assert capsys.readouterr().out.split("\n") == ["task     steps", "a \N{REPLACEMENT CHARACTER}[2Jb  5", ""]


@pytest.mark.parametrize("name", HOSTILE)
def test_the_progress_bar_shows_names_as_they_are(name, terminal, capsys):
    bar = ProgressBar()
    bar.training_begins(
        Training([Identity(HOSTILE[name], 0)], steps=0, total_steps=10, random_steps=0, returns=[[]], learner=None)
    )
    bar.message(f"{HOSTILE[name]}: stopped")
    bar.training_ends(10)
    lines = [OURS.sub("", line) for line in capsys.readouterr().out.split("\n")]
    assert all(line.isprintable() for line in lines)
    assert sum("stopped" in line for line in lines) == 1
    assert all("(seed 0)" in line or "stopped" in line for line in lines if line)  # there are no other lines
    if name == "styles":
        assert any(line.endswith(f"{HOSTILE[name]}: stopped") for line in lines)


def test_the_live_view_shows_reasons_as_they_are(terminal, tmp_path, capsys):
    (job,) = jobs(["gym/Hopper-v4"], [default_algorithm()], [], [0], Settings(steps=10), tmp_path)
    with View({job: RunState.TO_DO}) as view:
        view.console.print(f"{EVERYTHING}: failed")
        view.end([job], {job: EVERYTHING})
    lines = [OURS.sub("", line) for line in capsys.readouterr().out.split("\n")]
    assert all(line.isprintable() for line in lines)
    assert sum("[bold red]x[/]" in line for line in lines) == 1


def test_a_line_without_end_is_cut(capsys):
    say("x" * 10**6)
    assert capsys.readouterr().out == "x" * 10_000 + "…\n"
