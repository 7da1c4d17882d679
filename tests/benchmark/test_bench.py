"""`mrq bench` as a user runs it."""

import re
import signal
import time

import pytest

from mrq import MRQError
from mrq.benchmark.bench import Request, bench
from mrq.training.settings import Settings
from tests.command_line import SMALL, assert_same, mrq, rows, start, train

SHORT = [*SMALL, "--compile", "off", "--evaluation-episodes", "1"]


@pytest.mark.slow
def test_an_interrupted_matrix_is_continued_until_it_is_finished(tmp_path):
    command = ["bench", "gym", "--tasks", "Hopper-v4", "--seeds", 2, "--variants", "no-lap", "--steps", 300, *SHORT]
    process = start(*command, cwd=tmp_path)
    finished = tmp_path / "runs" / "no-lap" / "gym" / "Hopper-v4" / "seed-0" / "learning_curve.png"
    while not finished.exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 143, err
    assert "interrupted; run the same command again to continue" in out
    code, out, err = mrq(*command, cwd=tmp_path)
    assert code == 0, err
    assert "runs: 4, to do: " in out
    assert "to do: 4" not in out
    assert "all runs are finished; to see their results: mrq report runs" in out
    runs = tmp_path / "runs"
    for place in (runs, runs / "no-lap"):
        for seed in (0, 1):
            steps = [int(row["step"]) for row in rows(place / "gym" / "Hopper-v4" / f"seed-{seed}")]
            assert steps == [0, 200, 300]
    train(tmp_path, "--steps", 300, *SHORT, "--runs", "alone", "--seed", 1, task="gym/Hopper-v4")
    assert_same(runs / "gym" / "Hopper-v4" / "seed-1", tmp_path / "alone" / "gym" / "Hopper-v4" / "seed-1")
    code, out, _ = mrq(*command, cwd=tmp_path)
    assert (code, "runs: 4, to do: 0, already finished: 4" in out) == (0, True)


def dry_run(said, shown, **options):
    request = Request("gym", Settings(), tasks=["Hopper-v4"], **{"seeds": 2, **options}, dry_run=True)
    bench(request, said.append, shown.append)


def test_a_dry_run_counts_and_names_what_is_unusable(tmp_path):
    (tmp_path / "gym" / "Hopper-v4" / "seed-1" / "else").mkdir(parents=True)
    said, shown = [], []
    dry_run(said, shown, runs=str(tmp_path), variants=["no-lap"])
    (head, *lines), last = shown[0], said[-1]
    assert head[:7] == ["suite", "algorithm", "runs", "to do", "unfinished", "finished", "unusable"]
    assert [line[:7] for line in lines] == [
        ["gym", "MR.Q", "2", "1", "0", "0", "1"],
        ["gym", "no-lap", "2", "2", "0", "0", "0"],
        ["all", "", "4", "3", "0", "0", "1"],
    ]
    assert last.startswith("gym/Hopper-v4 (seed 1) is unusable: there is no run in ")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["Hopper-v4", "else", "gym", "seed-1"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"seeds": 0}, "--seeds is 0; it must be between 1 and 1,000."),
        ({"seeds": 10**12}, "--seeds is 1,000,000,000,000; it must be between 1 and 1,000."),
        ({"variants": ["all", "no-max"]}, "there is no variant 'no-max'; there are linear-value-function,"),
        ({"variants": ["PPO"]}, "there is no variant 'PPO'"),
        ({"algorithms": []}, "--algorithm is empty; give one or more of mrq, drqv2, ppo, td3, sac, dqn."),
        (
            {"algorithms": ["ppo"], "variants": ["no-lap"]},
            "--variants needs an algorithm that has variants; add mrq to --algorithm.",
        ),
        ({"runs": __file__}, f"{__file__} is not a folder; give --runs one."),
        (
            {"runs": "s3://bucket/runs"},
            "s3://bucket/runs is an address, which needs `mrq bench --engine ray`; give --runs a folder.",
        ),
    ],
)
def test_impossible_requests_are_refused(options, sentence):
    with pytest.raises(MRQError, match=re.escape(sentence)):
        dry_run([], [], **options)


@pytest.mark.slow
def test_an_unusable_run_does_not_stop_the_others(tmp_path):
    broken = tmp_path / "runs" / "gym" / "Hopper-v4" / "seed-0"
    broken.mkdir(parents=True)
    (broken / "notes.txt").touch()
    command = ["bench", "gym", "--tasks", "Hopper-v4", "--seeds", 2, "--steps", 210, *SHORT, "--runs", "runs/"]
    code, out, err = mrq(*command, cwd=tmp_path)
    assert code == 1
    assert "gym/Hopper-v4 (seed 0): there is no run in runs/gym/Hopper-v4/seed-0: it has no run.json." in out
    assert "1 of 2 runs did not finish" in err
    assert rows(tmp_path / "runs" / "gym" / "Hopper-v4" / "seed-1")
