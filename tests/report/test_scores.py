"""Checks our normalisation and aggregates against the paper's own tables."""

import numpy as np
import pytest

from mrq import MRQError
from mrq.environments.tasks import PROTOCOLS, paper_tasks
from mrq.report.columns import VARIANTS
from mrq.report.published import aggregates, design_study, normalisation, results
from mrq.report.scores import AGGREGATES, interquartile_mean, score

CONTROL = ("dmc", "dmc-visual")


def aggregate(suite, algorithm, name, shift):
    """Computes an aggregate from the table's returns, with `shift` added to each."""
    means = {
        task: r.mean for (task, name), r in results().items() if name == algorithm and task.startswith(f"{suite}/")
    }
    scores = [score(task, np.array([mean + shift(mean)])) for task, mean in means.items()]
    return AGGREGATES[name](scores) * (1_000 if suite in CONTROL else 1)


@pytest.mark.parametrize(("suite", "name", "algorithm"), aggregates())
def test_the_tables_reproduce_every_aggregate_row_of_the_paper(suite, name, algorithm):
    """The tables truncate: a return of 0 may be anything between -1 and 1, a return of 12 anything up to 13."""
    unit, published = 1 if suite in CONTROL else 0.01, aggregates()[suite, name, algorithm].mean
    plain = aggregate(suite, algorithm, name, lambda _: 0)
    lowest = aggregate(suite, algorithm, name, lambda x: -1 if x <= 0 else 0)
    highest = aggregate(suite, algorithm, name, lambda x: 1 if x >= 0 else 0)
    assert lowest - unit < published < highest + unit
    by_truncation = {("atari", "MR.Q", "Median"), ("atari", "DQN", "IQM")}  # one game's score decides these
    assert abs(plain - published) < unit or (suite, algorithm, name) in by_truncation


def test_two_columns_of_the_paper_repeat_another_games_numbers_for_two_missing_games():
    """DQN and Rainbow were not run on Defender and Surround; the numbers printed there contradict the aggregates."""
    rainbow = {task: row.mean for (task, name), row in results().items() if name == "Rainbow"}
    assert len(rainbow) == 55
    printed = rainbow | {"atari/Defender": 116_954, "atari/Surround": 3_488}
    mean = np.mean([score(task, value) for task, value in printed.items()])
    assert mean > 4  # the paper says 1.08


def test_there_is_a_published_result_for_every_task():
    ours = [task for task, name in results() if name == "MR.Q"]
    assert ours == [task.name for task in paper_tasks()]
    assert list(normalisation()) == [task for task in ours if not task.startswith(CONTROL)]
    assert len(aggregates()) == len(PROTOCOLS) * 5 * len(AGGREGATES)


def test_the_design_study_has_every_variant_in_every_suite():
    differences = design_study()
    assert list(differences) == [(variant, suite) for variant in VARIANTS for suite in PROTOCOLS]
    assert differences["revert", "gym"] == (-1.47, -1.54, -1.39)
    assert differences["no-reward-scaling", "atari"] == (0.18, -0.25, 0.56)
    assert all(row.low <= row.mean <= row.high for row in differences.values())


def test_scores_by_hand():
    assert score("gym/Hopper-v4", 3226.0) == 1
    assert score("gym/Hopper-v4", 18.791) == 0
    assert score("gym/HalfCheetah-v4", 12939.0) == pytest.approx((12939 + 289.415) / (10574 + 289.415))
    assert score("atari/Pong", 14.6) == pytest.approx(1)
    assert score("atari/Skiing", -30_000.0) == pytest.approx((-30_000 + 17_098.1) / (-4_336.9 + 17_098.1))
    assert score("dmc/dog-run", 569.0) == score("dmc-visual/dog-run", 569.0) == 0.569
    assert score("Hopper-v4", 3226.0) == 1  # the suite may be omitted
    with pytest.raises(MRQError, match="gym/Pendulum-v1 is not one of the paper's tasks"):
        score("gym/Pendulum-v1", 0.0)
    np.testing.assert_allclose(score("atari/Boxing", np.array([0.1, 12.1])), [0, 1])


def test_aggregates_by_hand():
    tasks = [np.array([100.0, 2.0]), np.array([1.0, 3.0, -50.0])]
    assert interquartile_mean(tasks) == 2  # without one of five at each end
    assert interquartile_mean([np.array([1.0, 5.0, 9.0])]) == 5  # a quarter of three is less than one
    assert AGGREGATES["Mean"](tasks) == pytest.approx((51 - 46 / 3) / 2)
    assert AGGREGATES["Median"]([*tasks, np.array([7.0])]) == 7
    several = [np.array([[1.0, 3.0], [5.0, 7.0]]), np.array([[4.0], [0.0]])]  # two resamples of two tasks
    np.testing.assert_allclose(AGGREGATES["Mean"](several), [3, 3])
    np.testing.assert_allclose(AGGREGATES["Median"](several), [3, 3])
    np.testing.assert_allclose(AGGREGATES["IQM"](several), [8 / 3, 4])
