"""Checks tables of example runs against numbers computed by hand."""

import numpy as np
import pytest

from mrq import MRQError
from mrq.environments.tasks import paper_tasks
from mrq.report.intervals import estimate
from mrq.report.records import external
from mrq.report.report import build
from mrq.report.scores import mean
from mrq.report.tables import design_study, suite_table, uncompared
from mrq.report.text import as_csv, markdown
from tests.report.example_runs import run

GYM = [task.name for task in paper_tasks() if task.suite == "gym"]


def test_a_suite_with_two_of_its_five_tasks():
    values = {"gym/Hopper-v4": [1000.0, 3000.0], "gym/Walker2d-v4": [2000.0, 4000.0, 6000.0]}
    records = [run(t, seed, value, parameters=7_500) for t, own in values.items() for seed, value in enumerate(own)]
    table = suite_table("gym", records)
    assert (table.ours, table.covered, table.complete) == (["MR.Q"], ["gym/Hopper-v4", "gym/Walker2d-v4"], False)
    hopper = table.rows["gym/Hopper-v4"]["MR.Q"]
    assert (hopper.mean, hopper.interval, hopper.seeds) == (2000, (1000, 3000), 2)  # both seeds may be drawn twice
    assert table.rows["gym/Hopper-v4"]["MR.Q (paper)"][:2] == (2692, (2131, 3309))
    assert "MR.Q" not in table.rows["gym/Ant-v4"]
    scores = (2000 - 18.791) / (3226 - 18.791), (4000 - 2.791) / (3946 - 2.791)
    assert table.aggregates["Mean"]["MR.Q"].mean == pytest.approx(np.mean(scores))
    theirs = (2692 - 18.791) / (3226 - 18.791), (6039 - 2.791) / (3946 - 2.791)
    paper = table.aggregates["Mean"]["MR.Q (paper)"]
    assert (paper.mean, paper.interval) == (pytest.approx(np.mean(theirs)), None)  # of the same two tasks
    text = markdown(build(records))
    assert "| Hopper-v4 | 2,000 [1,000, 3,000] (2) | 3,511 [3,245, 3,746] |" in text
    assert "Aggregates cover 2 of the suite's 5 tasks." in text
    assert "| MR.Q | gym | 2 | 5 | 2 to 3 | 5,000,000 | 0.0 | 500,000 | 7.5k |" in text


def test_a_complete_suite_has_the_papers_own_aggregates():
    records = [run(task, seed, 1000.0) for task in GYM for seed in range(2)]
    table = suite_table("gym", records)
    assert table.aggregates["IQM"]["MR.Q (paper)"][:2] == (1.50, (1.44, 1.55))
    assert table.aggregates["Median"]["TD7 (paper)"].mean == 1.55
    lines = as_csv(build(records)).splitlines()
    assert lines[0] == "suite,row,column,step,mean,low,high,seeds,tasks"
    assert "gym,gym/Ant-v4,MR.Q,1000000,1000.0,1000.0,1000.0,2,1" in lines
    assert "gym,IQM,MR.Q (paper),1000000,1.5,1.44,1.55,,5" in lines
    assert len(lines) == 1 + (5 + 3) * 6  # five tasks and three aggregates, five columns of the paper's and ours


def test_unfinished_runs_are_not_compared():
    records = [run("dmc/cheetah-run", seed, 600.0, steps=100_000 + 50_000 * seed) for seed in range(2)]
    assert suite_table("dmc", records) is None
    (unfinished,) = uncompared(records)
    assert (unfinished.task, unfinished.step, unfinished.final_step) == ("dmc/cheetah-run", 100_000, 500_000)
    assert (unfinished.cell.mean, unfinished.cell.seeds) == (600, 1)  # the other was not evaluated there
    text = markdown(build(records))
    assert "| dmc/cheetah-run | MR.Q | 100,000 of 500,000 | 600 (1) |" in text
    assert "(paper)" not in text
    assert as_csv(build(records)).splitlines()[1:] == ["dmc,dmc/cheetah-run,MR.Q,100000,600.0,,,1,1"]
    assert "| MR.Q | dmc | 0 of 28 | cheetah-run | acrobot-swingup, ball_in_cup-catch," in text
    assert "| gym/CartPole-v1 | MR.Q | 30,000 | 500 (1) |" in markdown(
        build([run("gym/CartPole-v1", 0, 500.0, steps=30_000)])
    )
    longer = [run("dmc/cheetah-run", 0, 600.0, steps=1_000_000)]
    assert suite_table("dmc", longer).rows["dmc/cheetah-run"]["MR.Q"].mean == 300  # its return at the suite's last step


def test_markdown_has_one_line_per_row_whatever_the_name_of_the_task():
    text = markdown(build([run("a\nb|c<script>", 0, 1.0, steps=10)]))
    assert (
        "| gym/a b\\|c&lt;script> | MR.Q | 10 | 1 (1) |" in text or "| a b\\|c&lt;script> | MR.Q | 10 | 1 (1) |" in text
    )


def test_the_design_study_compares_the_tasks_that_both_have():
    records = [run("gym/Hopper-v4", seed, 3226.0) for seed in range(3)] + [run("gym/Ant-v4", 0, 5000.0)]
    records += [run("gym/Hopper-v4", seed, 18.791, "no-lap") for seed in range(3)]
    (study,) = design_study(records)
    assert (study.variant, study.suite, study.tasks) == ("no-lap", "gym", ["gym/Hopper-v4"])
    assert study.ours == pytest.approx((-1, -1, -1))
    assert study.paper == (-0.10, -0.24, -0.00)
    assert "| no-lap | gym | -1.00 [-1.00, -1.00] | 1 | -0.10 [-0.24, -0.00] |" in markdown(build(records))
    lines = as_csv(build(records)).splitlines()
    assert "gym,design study,no-lap (paper),1000000,-0.1,-0.24,-0.0,,5" in lines
    table = suite_table("gym", records)
    assert table.ours == ["MR.Q", "no-lap"]
    assert "no-lap" not in table.aggregates["Mean"]  # it lacks one of MR.Q's tasks


def test_a_variant_in_atari_is_complete_after_the_steps_of_the_study():
    records = [run("atari/Pong", 0, 10.0, variant, 1_000_000) for variant in ("MR.Q", "no-lap")]
    assert [(found.algorithm, found.final_step) for found in uncompared(records)] == [("MR.Q", 2_500_000)]
    assert suite_table("atari", records) is None
    assert [study.ours.mean for study in design_study(records)] == [0]


def test_intervals_cover_the_true_mean():
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(200):
        tasks = [rng.normal(task, 1 + task, 20) for task in range(3)]
        low, high = estimate(tasks, mean)[1:]
        covered += low <= 1 <= high
    assert 0.88 < covered / 200 < 0.98  # a bootstrap of few seeds is a little narrow


def test_another_programs_results_are_a_column(tmp_path):
    path = tmp_path / "SAC.csv"
    rows = ["Hopper-v4,0,1000000,2500", "Hopper-v4,0,500000,1000", "gym/Hopper-v4,1,1000000,3500"]
    path.write_text("\n".join(["task,seed,step,return", *rows]))
    table = suite_table("gym", list(external(path)))
    assert table.rows["gym/Hopper-v4"]["SAC"][::2] == (3000, 2)
    path.write_text("task,seed,step\n")
    with pytest.raises(MRQError, match=r"has no column return; it needs task, seed, step, return\."):
        list(external(path))
    path.write_text("task,seed,step,return\nHopper-v4,0,many,1\n")
    with pytest.raises(MRQError, match="cannot be read"):
        list(external(path))
