"""mrq bench as a user runs it."""

import signal
import time

from tests.command_line import SMALL, assert_same, mrq, rows, start, train

SHORT = [*SMALL, "--compile", "off", "--evaluation-episodes", "1"]


def test_a_matrix_is_interrupted_gone_on_with_and_then_done(tmp_path):
    command = ["bench", "gym", "--tasks", "Hopper-v4", "--seeds", 2, "--variants", "no-lap", "--steps", 300, *SHORT]
    process = start(*command, cwd=tmp_path)
    finished = tmp_path / "runs" / "no-lap" / "gym" / "Hopper-v4" / "seed-0" / "learning_curve.png"
    while not finished.exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "the same command goes on where it stopped" in out
    code, out, err = mrq(*command, cwd=tmp_path)
    assert code == 0, err
    assert "runs: 4, of which " in out
    assert "all of them are finished; see: mrq report runs" in out
    runs = tmp_path / "runs"
    for place in (runs, runs / "no-lap"):
        for seed in (0, 1):
            steps = [int(row["step"]) for row in rows(place / "gym" / "Hopper-v4" / f"seed-{seed}")]
            assert steps == [0, 200, 300]
    train(tmp_path, "--steps", 300, *SHORT, "--runs", "alone", "--seed", 1, task="gym/Hopper-v4")
    assert_same(runs / "gym" / "Hopper-v4" / "seed-1", tmp_path / "alone" / "gym" / "Hopper-v4" / "seed-1")
    code, out, _ = mrq(*command, cwd=tmp_path)
    assert (code, "runs: 4, of which 0 to do, 4 finished already" in out) == (0, True)


def test_a_run_that_cannot_be_used_does_not_stop_the_others(tmp_path):
    broken = tmp_path / "runs" / "gym" / "Hopper-v4" / "seed-0"
    broken.mkdir(parents=True)
    command = ["bench", "gym", "--tasks", "Hopper-v4", "--seeds", 2, "--steps", 210, *SHORT, "--runs", "runs/"]
    code, out, err = mrq(*command, cwd=tmp_path)
    assert code == 1
    assert "gym/Hopper-v4 (seed 0): there is no run in runs/gym/Hopper-v4/seed-0: it has no run.json." in out
    assert "1 of 2 runs did not finish" in err
    assert rows(tmp_path / "runs" / "gym" / "Hopper-v4" / "seed-1")
