"""Checks the inventory of example runs, and how runs and external tables are read."""

import json
import os
import subprocess

import numpy as np
import pytest

from mrq import MRQError
from mrq.environments.tasks import names_in
from mrq.interface import Identity
from mrq.report import words
from mrq.report.inventory import groups, measured, missing, provenances
from mrq.report.records import collect, external
from mrq.training.evaluation import Evaluation
from mrq.training.evaluations_table import COLUMNS, as_text
from mrq.training.listeners.evaluations_file import EvaluationsFile
from mrq.training.run_creation import create_run_folder
from mrq.training.settings import Settings
from tests.documents import document_of
from tests.report.example_runs import run

CONTROL = names_in("dmc")
PENDULUM = Identity("Pendulum-v1", 0)


def test_runs_are_counted_by_algorithm_and_suite():
    records = [run("gym/Hopper-v4", seed, 1.0) for seed in range(3)] + [run("gym/Ant-v4", 0, 1.0, steps=200_000)]
    records += [run("gym/CartPole-v1", 0, 1.0, steps=30_000), run("gym/Ant-v4", 0, 1.0, "PPO")]
    gym, other, ppo = groups(records)
    assert (gym.algorithm, gym.suite, gym.tasks, gym.runs, gym.seeds, gym.steps) == (
        "MR.Q",
        "gym",
        2,
        4,
        (1, 3),
        3_200_000,
    )
    assert (gym.hours, gym.speed) == (pytest.approx(8 / 3600), 400_000)  # each took two seconds
    assert (other.suite, other.steps, ppo.algorithm, ppo.runs) == ("other tasks", 30_000, "PPO", 1)


def test_parameters_are_the_range_of_the_runs_that_have_them():
    records = [run("gym/Hopper-v4", seed, 1.0, parameters=count) for seed, count in enumerate((0, 300, 200))]
    records += [run("gym/Hopper-v4", 0, 1.0, name) for name in ("PPO", "no-lap")]
    found = groups(records)
    assert [(one.algorithm, one.parameters) for one in found] == [("MR.Q", (200, 300)), ("no-lap", None), ("PPO", None)]
    assert [one.algorithm for one in measured(found)] == ["MR.Q", "PPO"]
    assert [words.parameters(one) for one in found] == ["200 to 300", "-", "-"]
    (alike,) = groups([run("gym/Hopper-v4", seed, 1.0, parameters=4_650_000 + seed) for seed in range(2)])
    assert words.parameters(alike) == "4.65M"  # rounded to three digits


def test_machines_and_provenances_are_counted():
    here, there = ((("device", name), ("CPU", "8 cores")) for name in ("CPU", "An Old GPU"))
    records = [run("gym/Hopper-v4", seed, 1.0, provenance=one) for seed, one in enumerate((here, there, here))]
    (found,) = groups(records)
    assert (found.machines, found.provenances) == (["An Old GPU (8 cores)", "CPU (8 cores)"], 2)
    (unknown,) = groups([run("gym/Hopper-v4", 0, 1.0)])
    assert (unknown.machines, words.hardware([unknown])) == ([], "")
    says = words.hardware([*groups([run("gym/Ant-v4", 0, 1.0, "PPO", provenance=here)]), found])
    hardware, _, mixed = says.partition(". ")
    assert hardware.endswith(" hardware: PPO, MR.Q on CPU (8 cores); MR.Q on An Old GPU (8 cores)")
    assert mixed.startswith("Runs of MR.Q differ among themselves")


def test_hours_are_unknown_if_those_of_a_run_are(tmp_path):
    path = tmp_path / "SAC.csv"
    path.write_text("task,seed,step,return\nHopper-v4,0,1000000,2500\nHopper-v4,1,1000000,nan\n")
    records = list(external(path))
    assert [record.seed for record in records] == [0]  # NaN is ignored
    (found,) = groups(records)
    assert (found.hours, found.speed, found.steps) == (None, None, 1_000_000)
    assert provenances(records) == []


def test_missing_runs_are_unfinished_or_not_started():
    records = [run(task, 0, 1.0, steps=500_000) for task in CONTROL[:-2]]
    records += [run(CONTROL[-2], 0, 1.0, steps=100_000), run("gym/Ant-v4", 0, 1.0, "PPO")]
    found = {(one.algorithm, one.suite): one for one in missing(records)}
    assert list(found) == [*(("MR.Q", suite) for suite in ("gym", "dmc", "dmc-visual", "atari")), ("PPO", "gym")]
    dmc = found["MR.Q", "dmc"]
    assert (dmc.unfinished, dmc.absent, dmc.tasks) == ([CONTROL[-2]], [CONTROL[-1]], 28)
    assert len(found["MR.Q", "atari"].absent) == 57
    assert len(found["PPO", "gym"].absent) == 4
    whole = [run(task, 0, 1.0) for task in names_in("gym")]
    assert ("MR.Q", "gym") not in [(one.algorithm, one.suite) for one in missing(whole)]


def test_provenance_comes_from_run_json_and_old_runs_have_less(tmp_path):
    settings = Settings(steps=10, device="cpu", precision="bf16").completed(["Pendulum-v1"])
    for seed in range(3):
        folder = create_run_folder(tmp_path / str(seed), Identity("Pendulum-v1", seed), settings, True, {}, 1)
        folder.close()
        with (folder.path / "evaluations.csv").open("a") as file:
            file.write(f"Pendulum-v1,{seed},10,{'nan' if seed == 2 else -100},1,200,10,5.0\n")
    document = document_of(tmp_path / "1")
    assert document["machine"]["cpu"] != ""
    document["machine"] = {"gpus": ["An Old GPU"], "cpus": 4}
    document["settings"]["device"] = "auto"
    del document["versions"], document["mrq"]
    (tmp_path / "1" / "run.json").write_text(json.dumps(document))
    records = collect([tmp_path], print)
    assert [record.seed for record in records] == [0, 1]  # the only evaluation of the third is NaN
    new, old = (dict(record.provenance) for record in records)
    assert {"mrq", "python", "torch", "gymnasium", "platform"} <= new.keys()
    assert (new["numpy"], new["device"], new["precision"], new["compiled"]) == (np.__version__, "CPU", "bf16", "yes")
    assert old == {"device": "An Old GPU", "CPU": "4 cores", "precision": "bf16", "compiled": "yes"}
    assert [count for _, count in provenances(records)] == [1, 1]
    assert (records[0].algorithm, records[0].parameters) == ("MR.Q", 1)


def recorded(path, small, steps=(0,)):
    """Makes a run folder with evaluations at these steps."""
    run = create_run_folder(path, PENDULUM, Settings(steps=300, hyperparameters=small), True, {}, 1)
    for step in steps:
        EvaluationsFile([run]).evaluation(step, {0: Evaluation([-float(step)], [5])}, np.zeros(1))
    run.close()
    return run


def test_of_two_equal_runs_the_longer_one_is_used(tmp_path, small):
    said = []
    for place, last in (("a", 200), ("b", 300), ("c", 100)):
        recorded(tmp_path / place, small, range(0, last + 1, 100))
    (record,) = collect([tmp_path, tmp_path / "a"], said.append)
    assert (record.source.name, record.steps.tolist()) == ("b", [0, 100, 200, 300])
    assert [line.partition(":")[0] for line in said] == ["left out"] * 2
    assert f"{tmp_path / 'c'}: the same algorithm, task and seed as {tmp_path / 'b'}" in said[1]


def test_the_tables_in_a_checkpoint_are_not_a_run(tmp_path, small):
    """Checkpoints at an address, and copies of them, contain such tables."""
    said = []
    run = recorded(tmp_path / "seed-0", small)
    for name in ("run.json", "evaluations.csv"):
        copy = run.checkpoints / "000001-step-0" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((run.path / name).read_bytes())
    (record,) = collect([tmp_path], said.append)
    assert (record.source, said) == (run.path, [])


def evaluations(*steps, seconds="1"):
    """Returns an evaluations.csv with rows at these steps."""
    row = dict.fromkeys(COLUMNS, "1") | {"task": PENDULUM.task, "seed": str(PENDULUM.seed), "seconds": seconds}
    return as_text([row | {"step": str(step)} for step in steps])


def test_runs_that_cannot_be_read_are_named_and_left_out(tmp_path, small):
    said = []
    damaged = {
        "no column": ("evaluations.csv", "task,seed,step,seconds\na,0,0,1\n", "its first line is not"),
        "not ascending": ("evaluations.csv", evaluations(5_000, 0), "the row of step 0 stands in the wrong place"),
        "repeated": ("evaluations.csv", evaluations(0, 0), "the row of step 0 stands in the wrong place"),
        "negative": ("evaluations.csv", evaluations(-1), "the row of step -1 stands in the wrong place"),
        "far": ("evaluations.csv", evaluations(10**26), "more steps than any training"),
        "long": ("evaluations.csv", evaluations(0, seconds="1" * 200_000), "field larger than field limit"),
        "nested": ("run.json", "[" * 100_000, "recursion"),
    }
    for place in ("whole", "empty", "folder", "text", "no document", "no GPUs", *damaged):
        recorded(tmp_path / place, small)
    for place, (name, content, _) in damaged.items():
        (tmp_path / place / name).write_text(content)
    document = document_of(tmp_path / "no GPUs")
    document["machine"] = {"gpus": 5}
    (tmp_path / "no GPUs" / "run.json").write_text(json.dumps(document))
    for place in ("empty", "folder", "text"):
        (tmp_path / place / "evaluations.csv").unlink()
    (tmp_path / "empty" / "evaluations.csv").write_text("task,seed\n")
    (tmp_path / "folder" / "evaluations.csv").mkdir()
    (tmp_path / "text" / "evaluations.csv").write_bytes(b"task,seed\n\xe9")
    (tmp_path / "no document" / "run.json").unlink()
    (record,) = collect([tmp_path], said.append)
    assert record.source.name == "whole"
    for place in ("empty", "folder", "text", "no document", "no GPUs", *damaged):
        (line,) = (line for line in said if str(tmp_path / place) in line)
        assert line.startswith("left out: ")
        assert damaged.get(place, ("", "", ""))[2] in line


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("MR.Q", "task,seed,step,return\ngym/Hopper-v4,0,1,2\n", "another column of the report is called 'MR.Q'"),
        ("no-lap", "task,seed,step,return\ngym/Hopper-v4,0,1,2\n", "another column of the report is called 'no-lap'"),
        ("PPO (paper)", "task,seed,step,return\ngym/Hopper-v4,0,1,2\n", "another column of the report is called"),
        ("other", "task,seed,step,return\ngym/Hopper-v4,0,1,2\ngym/Hopper-v4,0,1,3\n", "line 3: .*repeated"),
        ("other", "task,seed,step,return\ngym/Hopper-v4,0,-5,2\n", "line 2: .*step -5 .* is not a number of steps"),
        ("other", "task,seed,step,return\ngym/Hopper-v4,0,5.7,2\n", "line 2: .*step 5.7 .* is not a number of steps"),
        ("other", "task,seed,step,return\ngym/Hopper-v4,0,1e30,2\n", "line 2: .*step 1e30 .* is not a number of steps"),
        ("other", "task,seed,step,return\ngym/Hopper-v4,0\n", "line 2: .*it has 2 cells, but there are 4 columns"),
        ("other", "task,seed,step,return\n ,0,1,2\n", "line 2: .*the task is missing"),
        ("other", f"task,seed,step,return\n{'a' * 200_000},0,1,2\n", "cannot be read, line"),
        ("other", "task,seed,step,return,return\ngym/Hopper-v4,0,1,2,3\n", "has the column return twice"),
        ("other", "task,seed,step,return\ngym/Hopper-v4,0,1,1.7e308\n", "has no returns"),
        ("other", "task,seed,step,return\ngym/Hopper-v4,0,1,abc\n", "line 2: .*abc"),
        ("other", "task,seed,step,return\ngym/Hopper-v4,0,1,nan\n", "has no returns"),
        ("other", "", "has no column task, seed, step, return"),
    ],
)
def test_unusable_external_tables_are_refused(name, content, sentence, tmp_path):
    (tmp_path / f"{name}.csv").write_text(content)
    with pytest.raises(MRQError, match=sentence):
        collect([tmp_path], print, [tmp_path / f"{name}.csv"])


def test_external_tables_may_have_the_quirks_of_spreadsheets(tmp_path):
    (tmp_path / "other.csv").write_text(
        "\ufeffTask, Seed,step,Return,note\nHopper-v4 , 0 ,1e3, 2.5,x\n\n", encoding="utf-8"
    )
    (record,) = collect([tmp_path], print, [tmp_path / "other.csv"])
    assert (record.algorithm, record.task, record.steps.tolist(), record.returns.tolist()) == (
        *("other", "gym/Hopper-v4"),
        *([1000], [2.5]),
    )


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (os.mkfifo, "it is not a regular file"),
        (os.mkdir, "it is not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "it is not a regular file"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
        (lambda path: path.write_bytes(b"task,seed,step,return\nx,0,1,\xe9\n"), "'utf-8' codec can't decode"),
        (lambda path: (path.touch(), os.truncate(path, 100 * 10**6 + 1)), "it is larger than 100 MB"),
        (lambda path: None, "No such file or directory"),
    ],
)
def test_only_files_of_some_size_are_read_as_external_tables(make, reason, tmp_path):
    path = tmp_path / "other.csv"
    make(path)
    with pytest.raises(MRQError, match=rf"other\.csv cannot be read: {reason}"):
        list(external(path))


def test_an_external_table_may_be_a_link(tmp_path):
    (tmp_path / "table").write_text("task,seed,step,return\nHopper-v4,0,1,2\n")
    (tmp_path / "SAC.csv").symlink_to("table")
    assert [record.algorithm for record in external(tmp_path / "SAC.csv")] == ["SAC"]


@pytest.mark.parametrize("title", ["MR.Q (paper)", "TD7  (paper)\n"])
def test_a_run_cannot_pass_for_a_column_of_the_paper(title, tmp_path):
    settings = Settings(steps=10, device="cpu").completed(["Pendulum-v1"])
    create_run_folder(tmp_path / "seed-0", Identity("Pendulum-v1", 0), settings, True, {}, 1).close()
    path = tmp_path / "seed-0" / "run.json"
    path.write_text(json.dumps(document_of(tmp_path / "seed-0") | {"algorithm": title}))
    with (tmp_path / "seed-0" / "evaluations.csv").open("a") as file:
        file.write("Pendulum-v1,0,10,-100,1,200,10,5.0\n")
    left_out = []
    assert collect([tmp_path], left_out.append) == []
    assert left_out == [
        f"left out: {tmp_path / 'seed-0'}: its algorithm is called {title!r}, like a column of the paper's results."
    ]


def test_runs_are_found_wherever_they_lie_but_not_in_the_checkpoints_of_a_run(tmp_path, small):
    recorded(tmp_path / "checkpoints" / "run", small)
    recorded(tmp_path / "checkpoints" / "run" / "checkpoints" / "000001-step-5", small)  # a copy at an address
    deep = tmp_path / "deep"
    deep.mkdir()
    here = os.open(deep, os.O_RDONLY)
    for _ in range(2_000):  # deeper than Python may recurse, and longer than a path may be
        os.mkdir("a", dir_fd=here)
        inner = os.open("a", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    try:
        (record,) = collect([tmp_path], pytest.fail)
    finally:
        subprocess.run(["rm", "-rf", deep], check=True)  # which pytest's own cleaning could not do
    assert record.source == tmp_path / "checkpoints" / "run"


def test_what_is_left_out_is_named(tmp_path, small):
    recorded(tmp_path / "run", small)
    document = document_of(tmp_path / "run")
    document["settings"]["evaluation_episodes"] = 10**9
    (tmp_path / "run" / "run.json").write_text(json.dumps(document))
    left_out = []
    assert collect([tmp_path], left_out.append) == []
    assert left_out == [
        f"left out: {tmp_path}/run/run.json cannot be used: --evaluation-episodes is 1,000,000,000; it must be between "
        "1 and 100,000."
    ]
