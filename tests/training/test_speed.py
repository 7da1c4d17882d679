"""What `mrq speed` measures, beyond what its table shows."""

from dataclasses import replace

import pytest

from mrq import MRQError, cli
from mrq.algorithms.registry import algorithm_named
from mrq.training import speed as measuring
from mrq.training.settings import Settings
from mrq.training.speed import ENVIRONMENTS, STEP, Speed, measure_speed


@pytest.mark.parametrize("change", [{"target_period": 5}, {"model_based": False}])
def test_hyperparameters_far_from_the_papers_are_measured_too(small, change):
    settings = Settings(device="cpu", compile="off", steps=2_000, hyperparameters=replace(small, **change))
    speed = measure_speed(["Pendulum-v1"], (0,), settings, lambda sentence: None)
    milliseconds = speed.milliseconds
    assert (milliseconds["encoder"] > 0.05) is settings.hyperparameters.model_based
    assert milliseconds["value and policy"] > 0.05
    assert speed.steps_per_second == pytest.approx(1e3 / milliseconds[STEP])


def test_nothing_is_said_to_bound_a_librarys_algorithm():
    h = algorithm_named("ppo").hyperparameters()
    speed = measure_speed(["Pendulum-v1"], (0,), Settings(device="cpu", hyperparameters=h), lambda sentence: None)
    assert (speed.bound_by, list(speed.milliseconds)) == ("-", [STEP, ENVIRONMENTS, "store"])


def test_measurements_before_a_failure_are_shown(tmp_path, monkeypatch, capsys):
    def measured(tasks, seeds, settings, say):
        if tasks == ("second",):
            raise MRQError("there is no second.")
        return Speed("first", 1, 1.0, 500.0, {STEP: 2.0, "encoder": 1.0}, "updates", 0)

    monkeypatch.setattr(measuring, "measure_speed", measured)
    file = tmp_path / "speed.md"
    with pytest.raises(MRQError, match="there is no second"):
        cli.Speed(("first", "second"), markdown=file, settings=Settings(device="cpu")).run()
    shown = capsys.readouterr().out.splitlines()
    assert shown[-1].split()[:3] == ["first", "1", "500"]
    assert file.read_text().splitlines()[-1].startswith("| first | 1 | 500 |")
