"""DrQ-v2 as a user runs it: everything comes with the protocol."""

import signal
import time

import pytest

from mrq.training.checkpoint import latest_checkpoint
from tests.command_line import assert_same, mrq, rows, start, weights

pytestmark = pytest.mark.slow

TASK = "tests.algorithms.drqv2.pixels:MovingColumn"
FOLDER = TASK.replace(":", "-")
OPTIONS = [
    *("train", TASK, "--algorithm", "drqv2", "--seeds", "0", "1", "--steps", "120"),
    *("--batch-size", "4", "--feature-size", "5", "--hidden-width", "16", "--random-steps", "20"),
    *("--exploration-decay", "100", "--evaluate-every", "60", "--evaluation-episodes", "2"),
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    code, out, err = mrq(*OPTIONS, cwd=folder)
    assert code == 0, err
    return folder, out


def test_two_seeds_train_together(finished):
    folder, _ = finished
    for seed in (0, 1):
        run = folder / "runs" / FOLDER / f"seed-{seed}"
        assert [row["step"] for row in rows(run)] == ["0", "60", "120"]
        assert weights(run)["critic.linear0.weight"].shape == (2, 16, 6)
    ours, theirs = (weights(folder / "runs" / FOLDER / f"seed-{seed}") for seed in (0, 1))
    assert not ours["actor.linear0.weight"].equal(theirs["actor.linear0.weight"])


def test_a_killed_run_resumes_bit_for_bit(finished, tmp_path):
    folder, _ = finished
    process = start(*OPTIONS, "--checkpoint-minutes", 0.005, cwd=tmp_path)
    runs = [tmp_path / "runs" / FOLDER / f"seed-{seed}" for seed in (0, 1)]
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and process.poll() is None:
        checkpoints = [latest_checkpoint(run / "checkpoints") for run in runs]
        if all(c is not None and int(c.name.rpartition("-")[2]) > 30 for c in checkpoints):
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    code, out, err = mrq("resume", *runs, "--trust", cwd=tmp_path)
    assert code == 0, err
    assert "new episode" not in out
    for run in runs:
        assert_same(run, folder / "runs" / FOLDER / run.name)


def test_a_finished_run_is_evaluated_and_reported(finished):
    folder, _ = finished
    code, out, err = mrq("evaluate", f"runs/{FOLDER}/seed-0", "--episodes", 2, "--trust", cwd=folder)
    assert code == 0, err
    code, out, err = mrq("report", "runs", cwd=folder)
    assert code == 0, err
    assert "DrQ-v2" in out


def test_a_task_that_it_cannot_learn_gets_one_sentence(tmp_path):
    code, _, err = mrq("train", "Pendulum-v1", "--algorithm", "drqv2", cwd=tmp_path)
    assert code == 1
    assert "DrQ-v2 cannot learn Pendulum-v1, whose observations are vectors; give tasks that it can." in err
    assert not (tmp_path / "runs").exists()
