"""A matrix on a real Ray cluster, one of whose machines dies."""

import json
import os
import signal
import time
from dataclasses import replace

import pytest

from mrq import MRQError
from mrq.benchmark.fleet import train
from mrq.benchmark.matrix import Job
from mrq.benchmark.variants import DEFAULT
from mrq.interface import Agent
from mrq.training.checkpoint import latest_checkpoint, step_of
from mrq.training.run_folder import RunFolder
from tests.benchmark.test_bench import SHORT
from tests.training.test_command_line import assert_same, mrq, rows, start

if not os.environ.get("CI"):
    pytest.importorskip("ray")

STEPS = 500
SETTINGS = ["--steps", STEPS, *SHORT, "--evaluate-every", 250, "--checkpoint-minutes", 0.04]  # a few checkpoints a run


@pytest.fixture
def cluster():
    """Three machines with a core each, as far as Ray can tell."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(2):
        made.add_node(num_cpus=1)
    yield made
    made.shutdown()


def node_in_mid_run(store, nodes):
    """One of the nodes, and its run, which has a complete checkpoint at the store and a good way to go."""
    for sent in store.rglob("sent"):
        run = sent.parents[2]
        if step_of(sent.parent) < 300:
            owner = (run / "owner").read_text().split()[1]
            for node in nodes:
                if node.node_id == owner:
                    return node, run
    return None


def wait_for(condition, process):
    while process.poll() is None:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(process.communicate())


def test_twelve_runs_survive_the_death_of_a_machine(tmp_path, cluster):
    store = tmp_path / "store"
    command = ["bench", "gym", "--tasks", "Hopper-v4", "--variants", "no-lap", "--seeds", 6, *SETTINGS]
    command += ["--engine", "ray", "--address", cluster.address, "--runs", f"file://{store}"]
    process = start(*command, cwd=tmp_path)
    others = [node for node in cluster.list_all_nodes() if not node.head]
    node, run = wait_for(lambda: node_in_mid_run(store, others), process)
    cluster.remove_node(node, allow_graceful=False)
    created = json.loads((run / "run.json").read_text())["created"]
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, out + err
    assert "runs: 12, of which 12 to do" in out
    assert f"all of them are finished; see: mrq report file://{store}" in out
    # The dead machine's run was gone on with by another, and not from the beginning.
    assert len(list(run.glob("tensorboard/*"))) == 2
    assert json.loads((run / "run.json").read_text())["created"] == created
    assert (run / "owner").read_text().split()[1] != node.node_id
    code, out, _ = mrq(*command, cwd=tmp_path)
    assert (code, "runs: 12, of which 0 to do, 12 finished already" in out) == (0, True)
    runs = sorted(path.parent for path in store.rglob("seed-*/run.json"))
    assert len(runs) == 12
    for path in runs:
        assert [int(row["step"]) for row in rows(path)] == [0, 250, 500]
        assert_same(path, trained_here(RunFolder(path), tmp_path / "here"))


def trained_here(run, root):
    """The run as the local engine trains it, but for the process of its own, and without checkpoints on the way."""
    settings = replace(run.settings, checkpoint_minutes=5.0)
    variant = DEFAULT if run.settings.hyperparameters.prioritised else "no-lap"
    job = Job(Agent(run.task, run.seed), variant, settings, root / variant)
    train([job], lambda message: None)
    return job.path


def test_interrupted_on_a_shared_disk_it_saves_and_goes_on(tmp_path):
    command = ["bench", "gym", "--tasks", "Hopper-v4", "--seeds", 2, *SETTINGS, "--checkpoint-minutes", 5]
    command += ["--engine", "ray"]
    process = start(*command, cwd=tmp_path)
    runs = [tmp_path / "runs" / "gym" / "Hopper-v4" / f"seed-{seed}" for seed in (0, 1)]
    wait_for(lambda: any((run / "evaluations.csv").exists() and rows(run) for run in runs), process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "interrupted; the same command goes on where it stopped" in out
    assert [run for run in runs if latest_checkpoint(run / "checkpoints")]  # only an interruption can have made one
    code, out, err = mrq(*command, cwd=tmp_path)
    assert code == 0, err
    assert "runs: 2, of which 2 to do, 0 finished already" in out
    for run in runs:
        assert [int(row["step"]) for row in rows(run)] == [0, 250, 500]
        assert_same(run, trained_here(RunFolder(run), tmp_path / "here"))


def test_a_disk_that_is_not_shared_is_refused(tmp_path):
    """Though every machine has a folder of that name."""
    from mrq.benchmark.ray_engine import _marked, _refuse_other_disk

    ours, theirs = tmp_path / "ours" / "runs", tmp_path / "theirs" / "runs"
    theirs.mkdir(parents=True)
    with _marked(ours) as marker:
        _refuse_other_disk(ours, marker)
        with pytest.raises(MRQError, match=r"/theirs/runs on .* is not that of the machine that gave the command"):
            _refuse_other_disk(theirs, marker)
    assert list(ours.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(MRQError, match="file/runs cannot be written to: Not a dir"), _marked(tmp_path / "file/runs"):
        pass


def test_an_address_where_no_cluster_is(tmp_path):
    code, _, err = mrq("bench", "gym", "--seeds", 1, "--engine", "ray", "--address", "127.0.0.1:1", cwd=tmp_path)
    assert code == 1
    assert "there is no Ray cluster at 127.0.0.1:1" in err


def test_without_ray_the_option_says_how_to_get_it(tmp_path):
    (tmp_path / "ray.py").write_text("raise ImportError")
    command = ["bench", "gym", "--seeds", 1, "--engine", "ray"]
    code, _, err = mrq(*command, cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert (code, err) == (1, "mrq: --engine ray needs Ray; run: pip install 'mrq-rl[ray]'\n")
