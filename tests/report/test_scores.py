"""Our normalisation and aggregates against the paper's own tables."""

import numpy as np
import pytest

from mrq import MRQError
from mrq.benchmark.variants import VARIANTS
from mrq.environments.tasks import PROTOCOLS, paper_tasks
from mrq.report.published import aggregates, design_study, normalisation, results
from mrq.report.scores import AGGREGATES, interquartile_mean, score

CONTROL = ("dmc", "dmc-visual")


def aggregate(suite, algorithm, name, shift):
    """What a row of aggregates should be, with `shift` added to each of the table's returns."""
    rows = [row for row in results() if row.algorithm == algorithm and row.task.partition("/")[0] == suite]
    scores = [score(row.task, np.array([row.mean + shift(row.mean)])) for row in rows]
    return AGGREGATES[name](scores) * (1_000 if suite in CONTROL else 1)


@pytest.mark.parametrize("row", aggregates(), ids=lambda row: "-".join(row[:3]))
def test_every_aggregate_row_of_the_paper_comes_out(row):
    """Up to what its tables cut off: a return of 0 may be anything between -1 and 1, one of 12 up to 13."""
    unit = 1 if row.suite in CONTROL else 0.01
    plain = aggregate(row.suite, row.algorithm, row.aggregate, lambda _: 0)
    lowest = aggregate(row.suite, row.algorithm, row.aggregate, lambda x: -1 if x <= 0 else 0)
    highest = aggregate(row.suite, row.algorithm, row.aggregate, lambda x: 1 if x >= 0 else 0)
    assert lowest - unit < row.mean < highest + unit
    by_cutting = {("atari", "MR.Q", "Median"), ("atari", "DQN", "IQM")}  # one game's score decides these
    near = abs(plain - row.mean) < unit
    assert near or (row.suite, row.algorithm, row.aggregate) in by_cutting


def test_the_papers_columns_for_two_missing_games_repeat_another_games_numbers():
    """DQN and Rainbow were not run on Defender and Surround; with the numbers printed there nothing would come out."""
    rainbow = {row.task: row.mean for row in results() if row.algorithm == "Rainbow"}
    assert len(rainbow) == 55
    printed = rainbow | {"atari/Defender": 116_954, "atari/Surround": 3_488}
    mean = np.mean([score(task, value) for task, value in printed.items()])
    assert mean > 4  # the paper says 1.08


def test_there_is_a_published_result_for_every_task():
    ours = [row.task for row in results() if row.algorithm == "MR.Q"]
    assert ours == [task.name for task in paper_tasks()]
    assert list(normalisation()) == [task for task in ours if not task.startswith(CONTROL)]
    assert len(aggregates()) == len(PROTOCOLS) * 5 * len(AGGREGATES)


def test_the_design_study_has_every_variant_in_every_suite():
    differences = {(row.variant, row.suite): row for row in design_study()}
    assert list(differences) == [(variant, suite) for variant in VARIANTS for suite in PROTOCOLS]
    assert differences["revert", "gym"][2:] == (-1.47, -1.54, -1.39)
    assert differences["no-reward-scaling", "atari"][2:] == (0.18, -0.25, 0.56)
    assert all(row.low <= row.mean <= row.high for row in differences.values())


def test_scores_by_hand():
    assert score("gym/Hopper-v4", 3226.0) == 1
    assert score("gym/Hopper-v4", 18.791) == 0
    assert score("gym/HalfCheetah-v4", 12939.0) == pytest.approx((12939 + 289.415) / (10574 + 289.415))
    assert score("atari/Pong", 14.6) == pytest.approx(1)
    assert score("atari/Skiing", -30_000.0) == pytest.approx((-30_000 + 17_098.1) / (-4_336.9 + 17_098.1))
    assert score("dmc/dog-run", 569.0) == score("dmc-visual/dog-run", 569.0) == 0.569
    assert score("Hopper-v4", 3226.0) == 1  # the suite may be left out
    with pytest.raises(MRQError, match="gym/Pendulum-v1 is none of the paper's tasks"):
        score("gym/Pendulum-v1", 0.0)
    np.testing.assert_allclose(score("atari/Boxing", np.array([0.1, 12.1])), [0, 1])


def test_aggregates_by_hand():
    tasks = [np.array([100.0, 2.0]), np.array([1.0, 3.0, -50.0])]
    assert interquartile_mean(tasks) == 2  # one of five off each end
    assert interquartile_mean([np.array([1.0, 5.0, 9.0])]) == 5  # a quarter of three is not one
    assert AGGREGATES["Mean"](tasks) == pytest.approx((51 - 46 / 3) / 2)
    assert AGGREGATES["Median"]([*tasks, np.array([7.0])]) == 7
    several = [np.array([[1.0, 3.0], [5.0, 7.0]]), np.array([[4.0], [0.0]])]  # two drawings of two tasks
    np.testing.assert_allclose(AGGREGATES["Mean"](several), [3, 3])
    np.testing.assert_allclose(AGGREGATES["Median"](several), [3, 3])
    np.testing.assert_allclose(AGGREGATES["IQM"](several), [8 / 3, 4])
