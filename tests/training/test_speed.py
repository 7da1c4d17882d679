"""What `mrq speed` measures, beyond what its table shows."""

from dataclasses import replace

import pytest

from mrq.training.settings import Settings
from mrq.training.speed import measure_speed


@pytest.mark.parametrize("change", [{"target_period": 5}, {"model_based": False}])
def test_hyperparameters_far_from_the_papers_are_measured_too(small, change):
    settings = Settings(device="cpu", compile="off", steps=2_000, hyperparameters=replace(small, **change))
    speed = measure_speed(["Pendulum-v1"], (0,), settings, lambda sentence: None)
    milliseconds = speed.milliseconds
    assert (milliseconds["encoder"] > 0.05) is settings.hyperparameters.model_based
    assert milliseconds["value and policy"] > 0.05
    assert speed.steps_per_second == pytest.approx(1e3 / milliseconds["a step"])
