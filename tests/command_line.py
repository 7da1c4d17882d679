"""How tests run mrq as a user does, in a process of its own, and compare what it leaves."""

import csv
import os
import subprocess
import sys
from pathlib import Path

from safetensors.torch import load_file

from mrq.training.checkpoint import latest_checkpoint

SMALL = [
    *("--hidden-width", "32", "--state-embedding", "32", "--state-action-embedding", "32", "--action-embedding", "16"),
    *("--batch-size", "16", "--target-period", "50", "--random-steps", "200"),
    *("--evaluate-every", "200", "--evaluation-episodes", "2"),
]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[1])}


def start(*arguments, cwd, **environment):
    command = [sys.executable, "-m", "mrq", *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=cwd, env=ENVIRONMENT | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def mrq(*arguments, cwd, **environment):
    process = start(*arguments, cwd=cwd, **environment)
    out, err = process.communicate(timeout=300)
    assert "Traceback" not in err, err
    return process.returncode, out, err


def train(cwd, *arguments, task="Pendulum-v1"):
    code, out, err = mrq("train", task, *SMALL, *arguments, cwd=cwd)
    assert code == 0, err
    return out


def rows(folder):
    """Without the seconds, which no two runs share."""
    with (folder / "evaluations.csv").open() as file:
        found = list(csv.DictReader(file))
    seconds = [float(row.pop("seconds")) for row in found]
    assert seconds == sorted(seconds)  # they go on when a run does
    return found


def steps_in(folder):
    """At which it was evaluated."""
    return [int(row["step"]) for row in rows(folder)]


def weights(folder):
    return load_file(latest_checkpoint(folder / "checkpoints") / "learner.safetensors")


def assert_same(one, other):
    assert rows(one) == rows(other)
    ours, theirs = weights(one), weights(other)
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert tensor.equal(theirs[name]), name
    first, second = (latest_checkpoint(folder / "checkpoints") for folder in (one, other))
    for file in first.glob("*.npy"):
        assert file.read_bytes() == (second / file.name).read_bytes(), file.name
