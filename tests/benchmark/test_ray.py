"""A matrix on a real Ray cluster, one of whose machines fails."""

import json
import os
import re
import signal
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

from mrq import MRQError
from mrq.benchmark.cluster import Cluster
from mrq.benchmark.fleet import train
from mrq.benchmark.matrix import Job
from mrq.training.checkpoint import latest_checkpoint, step_of
from mrq.training.listeners.listener import Listener
from mrq.training.run_folder import RunFolder
from tests.benchmark.test_bench import SHORT
from tests.command_line import assert_same, mrq, start, steps_in

pytestmark = pytest.mark.slow

if not os.environ.get("CI"):
    pytest.importorskip("ray")

STEPS, EVERY = 200, 100  # of training and between evaluations; learning begins at the second evaluation
CHECKPOINTS = 3.0  # seconds between them
SETTINGS = ["--steps", STEPS, *SHORT, "--random-steps", EVERY, "--evaluate-every", EVERY]


@pytest.fixture
def temporary(monkeypatch):
    """Returns the temporary folder of Ray and its workers; not tmp_path, because sockets need short paths."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder).resolve()


@pytest.fixture
def cluster(temporary, monkeypatch):
    """Starts what Ray takes for three machines with one core each."""
    monkeypatch.setenv("RAY_worker_niceness", "0")
    with machine(num_cpus=1) as made:
        for _ in range(2):
            made.add_node(num_cpus=1)
        yield made


@contextmanager
def machine(**resources):
    """Starts a cluster of one machine."""
    from ray import cluster_utils

    made = cluster_utils.Cluster(initialize_head=True, head_node_args={**resources, "include_dashboard": False})
    try:
        yield made
    finally:
        made.shutdown()


def wait_for(condition, process):
    while process.poll() is None:
        if found := condition():
            return found
        time.sleep(0.01)
    raise AssertionError(process.communicate())


def evaluated(run):
    with suppress(FileNotFoundError):
        return steps_in(run)
    return []


def in_training(temporary):
    """Returns the runs in the workers' temporary folders."""
    with suppress(FileNotFoundError):  # a worker ends at this moment
        return list(temporary.glob("mrq-worker-*/**/seed-*"))
    return []


def trainer_of(run):
    """Returns the process that holds a run's lock."""
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if descriptor.readlink() == run / "lock":
                return int(descriptor.parts[2])
    return None


def caught_in_mid_run(temporary, store, nodes, process):
    """Returns a node, its run at the store, and the process that trains the run, which is stopped.

    The run has a checkpoint after an evaluation, and has steps left. This does not depend on the machine's speed: a
    process that was stopped for the time between two checkpoints writes one in its next step.
    """

    def caught():
        for run in in_training(temporary):
            there = store.joinpath(*run.relative_to(temporary).parts[1:])
            found = [node for node in nodes if node.node_id == (there / "owner").read_text().split()[1]]
            trainer = trainer_of(run) if found and evaluated(run) == [0, EVERY] else None
            if trainer is None:
                continue
            os.kill(trainer, signal.SIGSTOP)
            time.sleep(CHECKPOINTS)
            os.kill(trainer, signal.SIGCONT)
            latest = wait_for(lambda run=run: after_evaluation(run), process)
            os.kill(trainer, signal.SIGSTOP)
            if evaluated(run) == [0, EVERY] and after_evaluation(run) == latest:
                wait_for((there / "checkpoints" / latest.name / "sent").exists, process)
                return found[0], there, trainer
            os.kill(trainer, signal.SIGCONT)
        return None

    return wait_for(caught, process)


def after_evaluation(run):
    latest = latest_checkpoint(run / "checkpoints")
    return latest if latest is not None and step_of(latest) > EVERY else None


def test_twelve_runs_survive_the_failure_of_a_machine(tmp_path, temporary, cluster):
    store = tmp_path / "store"
    command = ["bench", "gym", "--tasks", "Hopper-v4", "--variants", "no-lap", "--seeds", 6, *SETTINGS]
    command += ["--checkpoint-minutes", CHECKPOINTS / 60]
    command += ["--engine", "ray", "--address", cluster.address, "--runs", f"file://{store}"]
    process = start(*command, cwd=tmp_path)
    others = [node for node in cluster.list_all_nodes() if not node.head]
    node, run, trainer = caught_in_mid_run(temporary, store, others, process)
    created = json.loads((run / "run.json").read_text())["created"]
    cluster.remove_node(node, allow_graceful=False)
    try:
        out, err = process.communicate(timeout=600)
    finally:
        with suppress(ProcessLookupError):
            os.kill(trainer, signal.SIGKILL)
    assert process.returncode == 0, out + err
    assert "runs: 12, to do: 12" in out
    assert f"all runs are finished; to see their results: mrq report file://{store}" in out
    # Another machine resumed the run of the one that failed, and did not start it again.
    assert len(list(run.glob("tensorboard/*"))) == 2
    assert json.loads((run / "run.json").read_text())["created"] == created
    assert (run / "owner").read_text().split()[1] != node.node_id
    assert list(temporary.glob("mrq-*")) == []  # not even those that the failed machine left
    code, out, _ = mrq(*command, cwd=tmp_path)
    assert (code, "runs: 12, to do: 0, already finished: 12" in out) == (0, True)
    runs = sorted(path.parent for path in store.rglob("seed-*/run.json"))
    assert len(runs) == 12
    for path in runs:
        assert evaluated(path) == [0, EVERY, STEPS]
        assert_same(path, trained_here(RunFolder(path), tmp_path / "here"))


def trained_here(run, root):
    """Trains a run as the local engine does, except that no child and no checkpoints in between are needed."""
    settings = replace(run.settings, checkpoint_minutes=5.0)
    label = run.title if run.settings.hyperparameters.prioritised else "no-lap"
    job = Job(run.identity, label, settings, root / label)
    train([job], Listener())
    return job.path


def told_to_end(process):
    """Says whether a stopped process has a pending SIGTERM."""
    (pending,) = re.findall(r"ShdPnd:\s*(\w+)", Path(f"/proc/{process}/status").read_text())
    return int(pending, 16) >> (signal.SIGTERM - 1) & 1


def test_an_interrupted_matrix_on_a_shared_disk_is_saved_and_continued(tmp_path):
    command = ["bench", "gym", "--tasks", "Hopper-v4", "--seeds", 2, *SETTINGS, "--engine", "ray"]
    one_core = {"RAY_OVERRIDE_RESOURCES": json.dumps({"CPU": 1}), "RAY_worker_niceness": "0"}  # so one fleet waits
    process = start(*command, cwd=tmp_path, **one_core)
    runs = [tmp_path / "runs" / "gym" / "Hopper-v4" / f"seed-{seed}" for seed in (0, 1)]
    begun = wait_for(lambda: [run for run in runs if evaluated(run)], process)
    trainer = trainer_of(begun[0])
    os.kill(trainer, signal.SIGSTOP)  # until it is told to stop, because it may be fast
    process.send_signal(signal.SIGINT)
    wait_for(lambda: told_to_end(trainer), process)
    os.kill(trainer, signal.SIGCONT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "interrupted; run the same command again to continue" in out
    assert [run for run in runs if run.exists()] == begun
    assert step_of(latest_checkpoint(begun[0] / "checkpoints")) < STEPS  # only an interruption can have written it
    code, out, err = mrq(*command, cwd=tmp_path, **one_core)
    assert code == 0, err
    assert "runs: 2, to do: 2, already finished: 0" in out
    for run in runs:
        assert evaluated(run) == [0, EVERY, STEPS]
        assert_same(run, trained_here(RunFolder(run), tmp_path / "here"))


def test_a_disk_that_is_not_shared_is_refused(tmp_path):
    """Both machines have a folder of that name."""
    from mrq.benchmark.ray_engine import _marked, _refuse_other_disk

    ours, theirs = tmp_path / "ours" / "runs", tmp_path / "theirs" / "runs"
    theirs.mkdir(parents=True)
    with _marked(ours) as marker:
        _refuse_other_disk(ours, marker)
        with pytest.raises(MRQError, match=r"/theirs/runs on .* is another folder than on the machine where"):
            _refuse_other_disk(theirs, marker)
    assert list(ours.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(MRQError, match="file/runs cannot be written to: Not a dir"), _marked(tmp_path / "file/runs"):
        pass


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU that can be used")
def test_an_unusable_gpu_is_refused(tmp_path, temporary):
    with machine(num_cpus=1, num_gpus=1) as made:
        command = ["bench", "gym", "--tasks", "Hopper-v4", "--seeds", 1, *SETTINGS, "--gpus-per-fleet", 0.5]
        code, out, err = mrq(*command, "--engine", "ray", "--address", made.address, cwd=tmp_path)
    assert (code, "runs: 1, to do: 1" in out) == (1, True)
    assert "mrq: a GPU of the cluster cannot be used: " in err


@pytest.mark.parametrize("share", [{"cpus_per_fleet": 0.50001}, {"gpus_per_fleet": 0.12345}])
def test_shares_with_too_many_decimals_are_refused(share):
    with pytest.raises(MRQError, match="Ray supports at most 4 decimals"):
        Cluster(**share)


def test_an_address_without_a_cluster_is_refused(tmp_path):
    code, _, err = mrq("bench", "gym", "--seeds", 1, "--engine", "ray", "--address", "127.0.0.1:1", cwd=tmp_path)
    assert code == 1
    assert "there is no Ray cluster at 127.0.0.1:1" in err


def test_without_ray_a_sentence_says_how_to_install_it(tmp_path):
    (tmp_path / "ray.py").write_text("raise ImportError")
    command = ["bench", "gym", "--seeds", 1, "--engine", "ray"]
    code, _, err = mrq(*command, cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert (code, err) == (1, "mrq: --engine ray needs Ray; run: pip install 'mrq-rl[ray]'\n")
