"""Checks learning curves of example runs against numbers computed by hand."""

from pathlib import Path

import numpy as np
import pytest

from mrq.environments.tasks import names_in
from mrq.report.curves import MOST_POINTS, suite_panels, task_panels
from mrq.report.intervals import estimate, estimate_curve
from mrq.report.records import Record
from mrq.report.scores import mean, score
from mrq.report.tables import suite_tables
from tests.report.example_runs import run


def record(task, seed, steps, returns, algorithm="MR.Q", seconds=()):
    times = np.array(seconds, float)
    return Record(algorithm, task, seed, np.array(steps), np.array(returns, float), times, Path("x"))


def test_a_curve_has_the_steps_that_all_of_its_seeds_have():
    records = [
        record("gym/Hopper-v4", 0, [0, 10, 500_000, 1_000_000], [0, 7, 100, 1000]),
        record("gym/Hopper-v4", 1, [0, 500_000, 1_000_000], [2, 300, 3000]),
    ]
    (panel,) = task_panels(records)
    (curve,) = panel.curves
    assert (panel.name, panel.final_step, panel.unit) == ("gym/Hopper-v4", 1_000_000, "return")
    assert (curve.algorithm, curve.seeds, curve.finished) == ("MR.Q", 2, True)
    assert curve.steps.tolist() == [0, 500_000, 1_000_000]
    assert curve.mean.tolist() == [1, 200, 2000]
    assert curve.low.tolist() == [0, 100, 1000]  # a quarter of all resamples draw one seed twice
    assert curve.high.tolist() == [2, 300, 3000]
    assert panel.paper == (2692, 2131, 3309)


def test_unfinished_seeds_have_their_own_curve():
    records = [run("gym/Hopper-v4", 0, 1000.0), run("gym/Hopper-v4", 1, 600.0, steps=200_000)]
    records += [record("gym/Hopper-v4", 2, [0, 100_000], [0, 500])]
    finished, unfinished = task_panels(records)[0].curves
    assert (finished.seeds, finished.finished, finished.mean.tolist()) == (1, True, [0, 500, 1000])
    assert (unfinished.seeds, unfinished.finished) == (2, False)
    assert unfinished.steps.tolist() == [0, 100_000]  # both have reached these
    assert unfinished.mean.tolist() == [0, 400]


def test_the_papers_result_is_shown_only_if_a_run_has_reached_its_last_step():
    (panel,) = task_panels([run("dmc/cheetah-run", 0, 800.0, steps=100_000)])
    assert (panel.final_step, panel.paper, panel.curves[0].finished) == (500_000, None, False)
    (panel,) = task_panels([run("atari/Pong", 0, 10.0, "no-lap", 1_000_000)])
    assert (panel.final_step, panel.paper, panel.curves[0].finished) == (2_500_000, None, True)  # the study ends there
    (panel,) = task_panels([run("gym/CartPole-v1", 0, 500.0, steps=30_000)])
    assert (panel.final_step, panel.paper, panel.curves[0].finished) == (None, None, False)


def test_the_hours_of_a_point_are_the_mean_of_its_seeds():
    records = [
        record("gym/Hopper-v4", 0, [0, 10, 500_000, 1_000_000], [0, 0, 1, 2], seconds=[0, 9, 3_600, 7_200]),
        record("gym/Hopper-v4", 1, [0, 500_000, 1_000_000], [0, 1, 2], seconds=[36, 7_200, 18_000]),
        run("gym/Hopper-v4", 2, 1.0, steps=200_000, seconds=360.0),
    ]
    finished, unfinished = task_panels(records)[0].curves
    assert finished.steps.tolist() == [0, 500_000, 1_000_000]
    assert finished.hours.tolist() == [0.005, 1.5, 3.5]
    assert unfinished.hours.tolist() == [0, 0.05, 0.1]


def test_hours_are_unknown_if_those_of_a_seed_are_or_if_they_are_zero():
    for seconds in (None, float("nan"), 0.0):
        records = [run("gym/Hopper-v4", 0, 1.0, seconds=seconds), run("gym/Hopper-v4", 0, 1.0, "PPO")]
        (panel,) = task_panels([*records, run("gym/Hopper-v4", 0, 1.0, "no-lap")])
        assert panel.timed == {"PPO"}  # variants do not count
        assert panel.curves[0].hours is None
    (panel,) = task_panels([run("gym/Hopper-v4", 0, 1.0), run("gym/Hopper-v4", 1, 1.0, seconds=None)])
    assert (panel.curves[0].hours, panel.timed) == (None, set())


def test_the_hours_of_a_suite_weigh_its_tasks_equally():
    records = [run("gym/Hopper-v4", seed, 1.0, seconds=3_600.0) for seed in range(3)]
    records += [run("gym/Ant-v4", 0, 1.0, seconds=7_200.0)]
    (panel,) = suite_panels(records, suite_tables(records))
    assert panel.curves[0].hours.tolist() == [0, 0.75, 1.5]


def test_seeds_that_share_no_step_have_no_curve():
    assert task_panels([record("gym/X", 0, [1, 3], [1, 1]), record("gym/X", 1, [2, 4], [1, 1])]) == []


def test_a_long_curve_is_thinned_and_keeps_its_end():
    steps = np.arange(0, 1_000_001, 5_000)
    (panel,) = task_panels([record("gym/Hopper-v4", 0, steps, steps / 2)])
    kept = panel.curves[0].steps
    assert len(kept) == MOST_POINTS
    assert (kept[0], kept[1], kept[-1]) == (0, 10_000, 1_000_000)
    np.testing.assert_array_equal(panel.curves[0].mean, kept / 2)


def test_the_curve_of_a_suite_is_the_mean_score_of_the_tasks_that_its_aggregates_cover():
    records = [run("gym/Hopper-v4", seed, 3226.0) for seed in range(2)] + [run("gym/Ant-v4", 0, 3942.0)]
    records += [run("gym/Hopper-v4", 0, 100.0, "SAC")]  # lacks a task
    (panel,) = suite_panels(records, suite_tables(records))
    (curve,) = panel.curves
    assert (curve.algorithm, curve.seeds, panel.unit) == ("MR.Q", 1, "TD3-normalised")
    assert curve.mean[-1] == pytest.approx(1)
    at_zero = [-18.791 / (3226 - 18.791), 70.288 / (3942 + 70.288)]
    assert curve.mean[0] == pytest.approx(np.mean(at_zero))
    assert (panel.title, panel.paper) == ("Gym locomotion: mean of 2 of 5 tasks", None)


def test_the_curve_of_a_complete_suite_ends_at_the_papers_mean():
    records = [run(task, 0, 700.0, steps=500_000) for task in names_in("dmc")]
    (panel,) = suite_panels(records, suite_tables(records))
    assert panel.curves[0].mean.tolist() == pytest.approx([0, 0.35, 0.7])
    assert panel.paper == pytest.approx((0.835, 0.829, 0.842))
    assert panel.title == "DMC proprioceptive: mean of 28 tasks"


def test_the_intervals_of_a_curve_equal_those_of_the_tables():
    rng = np.random.default_rng(5)
    tasks = ["gym/Hopper-v4", "gym/Ant-v4", "gym/Walker2d-v4"]
    scores = [score(task, rng.normal(2000, 500, (seeds, 4))) for task, seeds in zip(tasks, (3, 5, 10), strict=True)]
    curve = estimate_curve(scores)
    for step in range(4):
        at = [own[:, step] for own in scores]
        assert [line[step] for line in curve] == pytest.approx(list(estimate(at, mean)))
