from dataclasses import replace

import pytest

from mrq import Hyperparameters, MRQError
from mrq.interface import ReplaySettings


def test_the_replay_waits_for_the_longer_horizon():
    assert Hyperparameters().replay == ReplaySettings(1_000_000, 5, 0.4, 1.0)
    assert Hyperparameters(encoder_horizon=1).replay.horizon == 3
    assert Hyperparameters(value_horizon=9, replay_capacity=500).replay == ReplaySettings(500, 9, 0.4, 1.0)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"batch_size": 2.5}, "the hyperparameter batch_size is 2.5; it must be a whole number."),
        ({"discount": "0.9"}, "the hyperparameter discount is '0.9'; it must be a number."),
        ({"prioritised": 1}, "the hyperparameter prioritised is 1; it must be True or False."),
        ({"batch_size": 0}, "the hyperparameter batch_size is 0; it must be between 1 and 65,536."),
        ({"exploration_noise": -0.1}, "exploration_noise is -0.1; it must be between 0 and 1e+30."),
        (
            {"value_gradient_clip": float("inf")},
            "value_gradient_clip is inf; it must be between 1e-09 and 1,000,000,000.",
        ),
        (
            {"policy_learning_rate": float("nan")},
            "policy_learning_rate is nan; it must be between 0 and 1e+30.",
        ),
        ({"hidden_width": 100_000}, "the hyperparameter hidden_width is 100,000; it must be between 1 and 65,536."),
        ({"discount": 1.0}, "discount is 1.0; it must be between 0 and 0.999999."),
        ({"reward_bins": 1}, "reward_bins is 1; it must be between 2 and 65,536."),
        ({"minimum_priority": 1e308}, "minimum_priority is 1e+308; it must be between 1e-06 and 1,000,000."),
        ({"target_policy_noise_clip": 1e308}, "target_policy_noise_clip is 1e+308; it must be between 0 and"),
        (
            {"target_period": 2**63},
            "target_period is 9,223,372,036,854,775,808; it must be between 1 and 10,000,000,000.",
        ),
        ({"replay_capacity": 10**5000}, "replay_capacity is a number of more than 30 digits; it must be between 1 and"),
        ({"discount": [1] * 1_000}, "discount is [1, 1, 1, 1, 1, 1, ...]; it must be a number."),
        ({"discount": None}, "discount is None; it must be a number."),
        ({"replay_capacity": 99}, "replay_capacity is 99; it must be at least 100."),
        ({"encoder_horizon": 51}, "encoder_horizon is 51; it must be between 1 and 50."),
        (
            {"state_action_target": True, "state_embedding": 8},
            "state_embedding is 8 and state_action_embedding 512; with state_action_target they must be the same.",
        ),
        (
            {"random_steps": 4},
            "random_steps is 4; training cannot begin before the 5 steps of one window have been taken.",
        ),
    ],
)
def test_impossible_values_are_refused_with_a_sentence(changes, sentence):
    with pytest.raises(MRQError) as error:
        replace(Hyperparameters(), **changes)
    assert sentence in str(error.value)


def test_values_at_the_edge_of_what_is_possible_are_accepted():
    h = Hyperparameters(random_steps=5, exploration_noise=0, discount=0, replay_capacity=100, hidden_width=65_536)
    assert h.replay.capacity == 100
