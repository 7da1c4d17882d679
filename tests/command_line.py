"""Runs mrq as a user does, in a process of its own, and compares run folders."""

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
MODULES = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]))
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": MODULES}


def start(*arguments, cwd, **environment):
    """Starts mrq, and returns its process."""
    command = [sys.executable, "-m", "mrq", *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=cwd, env=ENVIRONMENT | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def mrq(*arguments, cwd, **environment):
    """Runs mrq; returns its exit status and what it printed."""
    process = start(*arguments, cwd=cwd, **environment)
    out, err = process.communicate(timeout=300)
    assert "Traceback" not in err, err
    return process.returncode, out, err


def train(cwd, *arguments, task="Pendulum-v1"):
    """Trains small networks; returns what was printed."""
    code, out, err = mrq("train", task, *SMALL, *arguments, cwd=cwd)
    assert code == 0, err
    return out


def rows(folder):
    """Returns the evaluations of a run without their seconds, which differ from run to run."""
    with (folder / "evaluations.csv").open() as file:
        found = list(csv.DictReader(file))
    seconds = [float(row.pop("seconds")) for row in found]
    assert seconds == sorted(seconds)  # a resumed run continues them
    return found


def steps_in(folder):
    """Returns the steps at which a run was evaluated."""
    return [int(row["step"]) for row in rows(folder)]


def weights(folder):
    """Returns the learner's tensors in a run's latest checkpoint."""
    return load_file(latest_checkpoint(folder / "checkpoints") / "learner.safetensors")


def assert_same(one, other):
    """Compares the results of two runs, to the last bit."""
    assert rows(one) == rows(other)
    ours, theirs = weights(one), weights(other)
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert tensor.equal(theirs[name]), name
    first, second = (latest_checkpoint(folder / "checkpoints") for folder in (one, other))
    for file in first.glob("*.npy"):
        assert file.read_bytes() == (second / file.name).read_bytes(), file.name
