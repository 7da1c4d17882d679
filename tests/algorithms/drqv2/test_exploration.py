"""How the noise on actions falls."""

import csv
from importlib.resources import files

import pytest
import torch

from mrq.algorithms.drqv2.exploration import DECAYS, decay_steps, standard_deviation
from mrq.algorithms.drqv2.hyperparameters import Hyperparameters

H = Hyperparameters()


@pytest.mark.parametrize(
    ("task", "steps"),
    [
        ("dmc-visual/walker-walk", 100_000),
        ("dmc-visual/cheetah-run", 500_000),
        ("dmc-visual/humanoid-walk", 2_000_000),
        ("dmc-visual/dog-run", 500_000),
        ("CarRacing-v3", 500_000),
    ],
)
def test_the_noise_falls_by_the_difficulty_of_the_task(task, steps):
    assert decay_steps(task, H) == steps


def test_a_decay_that_is_given_is_used_for_every_task():
    assert decay_steps("dmc-visual/walker-walk", Hyperparameters(exploration_decay=7)) == 7


def test_the_lists_name_tasks_that_exist():
    with files("mrq.environments").joinpath("tasks.csv").open() as file:
        tasks = {row[0] for row in csv.reader(file)}
    assert {f"dmc-visual/{task}" for task in DECAYS} <= tasks
    assert len(DECAYS) == 23


@pytest.mark.parametrize(
    ("step", "expected"),
    [(0, (1.0, 1.0)), (25, (0.775, 0.55)), (50, (0.55, 0.1)), (75, (0.325, 0.1)), (10_000, (0.1, 0.1))],
)
def test_each_agents_noise_falls_linearly_and_then_stays(step, expected):
    std = standard_deviation(torch.tensor(step), torch.tensor([100, 50]), H)
    torch.testing.assert_close(std, torch.tensor(expected))


def test_the_first_and_the_last_noise_are_hyperparameters():
    h = Hyperparameters(exploration_start=0.5, exploration_end=0.3)
    std = [standard_deviation(torch.tensor(step), torch.tensor([10]), h).item() for step in (0, 5, 10, 20)]
    assert std == pytest.approx([0.5, 0.4, 0.3, 0.3])
