"""When updates are compiled."""

from dataclasses import replace

import pytest
import torch

from mrq.algorithms.registry import algorithm_named
from mrq.training.compiling import worth_compiling
from mrq.training.settings import Settings

MRQ = algorithm_named("mrq")


@pytest.mark.parametrize(
    ("preset", "steps_after_random_ones", "worth"),
    [("paper", 1_340, False), ("paper", 1_350, True), ("small", 5_900, False), ("small", 6_000, True)],
)
def test_on_a_cpu_it_is_worth_it_where_the_updates_repay_it(preset, steps_after_random_ones, worth):
    h = replace(MRQ.preset(preset), batch_size={"paper": 256, "small": 128}[preset])
    settings = Settings(h.random_steps + steps_after_random_ones, 0, hyperparameters=h)
    assert worth_compiling(settings, torch.device("cpu")) is worth
    assert worth_compiling(settings, torch.device("cuda"))
    assert not worth_compiling(replace(settings, compile="off"), torch.device("cuda"))
    twice = replace(settings, hyperparameters=replace(h, updates_per_step=2.0))
    assert worth_compiling(twice, torch.device("cpu"))


def test_on_a_gpu_one_update_is_enough_and_on_a_cpu_it_can_be_asked_for():
    settings = Settings(10_001, 0)
    assert worth_compiling(settings, torch.device("cuda"))
    assert not worth_compiling(replace(settings, steps=10_000), torch.device("cuda"))
    assert worth_compiling(replace(settings, compile="on"), torch.device("cpu"))
