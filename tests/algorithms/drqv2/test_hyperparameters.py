"""The hyperparameters of DrQ-v2."""

import re

import pytest

from mrq.algorithms.drqv2 import DRQV2
from mrq.algorithms.drqv2.hyperparameters import Hyperparameters
from mrq.algorithms.registry import algorithm_named, algorithm_of
from mrq.errors import MRQError
from mrq.interface import Image, ReplaySettings, Spec


def test_the_papers_values():
    h = Hyperparameters()
    assert (h.random_steps, h.update_every, h.batch_size, h.value_horizon) == (2_000, 2, 256, 3)
    assert (h.exploration_start, h.exploration_end, h.noise_clip) == (1.0, 0.1, 0.3)
    assert (h.discount, h.learning_rate, h.target_rate) == (0.99, 1e-4, 0.01)
    assert (h.feature_size, h.hidden_width) == (50, 1_024)
    assert h.replay == ReplaySettings(capacity=1_000_000, horizon=3, priority_exponent=0.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"update_every": 0}, "the hyperparameter update_every is 0; it must be between 1 and 10,000,000,000."),
        ({"learning_rate": "fast"}, "the hyperparameter learning_rate is 'fast'; it must be a number."),
        ({"target_rate": 1.5}, "target_rate is 1.5; it must be between 1e-09 and 1."),
        ({"discount": 1.0}, "discount is 1.0; it must be between 0 and 0.999999."),
        ({"random_steps": 2}, "training cannot begin before the 3 steps of one window"),
        ({"replay_capacity": 99}, "replay_capacity is 99; it must be at least 100."),
        ({"value_horizon": 51, "random_steps": 60}, "value_horizon is 51; it must be between 1 and 50."),
        ({"hidden_width": 100_000}, "the hyperparameter hidden_width is 100,000; it must be between 1 and 65,536."),
    ],
)
def test_values_that_cannot_be_used_are_refused(changes, message):
    with pytest.raises(MRQError, match=re.escape(message)):
        Hyperparameters(**changes)


def test_the_registry_knows_the_algorithm():
    assert algorithm_named("drqv2") is DRQV2
    assert algorithm_of(Hyperparameters()) is DRQV2


@pytest.mark.parametrize(
    ("spec", "obstacle"),
    [
        (Spec((Image(3, 84, 84),), history=3, continuous=2), None),
        (Spec(numbers=3, continuous=2), "whose observations are vectors"),
        (Spec((Image(1, 84, 84),), history=4, choices=(2,)), "whose actions are discrete"),
    ],
)
def test_it_learns_continuous_actions_from_images(spec, obstacle):
    assert DRQV2.obstacle(spec) == obstacle
