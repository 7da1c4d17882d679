import pytest
import torch

from mrq import MRQError
from mrq.interface import Image, ReplaySettings, Spec
from mrq.replay import allocation
from mrq.replay.allocation import reserve, slots_needed

CPU = torch.device("cpu")


def test_memory_is_reported_before_it_is_taken_and_refused_where_there_is_too_little(monkeypatch):
    spec = Spec((Image(1, 84, 84),), history=4, choices=(18,))
    monkeypatch.setattr(allocation, "available_memory", lambda device: 10_000_000_000)
    assert "7.1 GB of 10.0 GB" in reserve(1, spec, 1_000_000, CPU)
    with pytest.raises(
        MRQError, match=r"would take 14\.3 GB .* 10\.0 GB free; --replay-capacity (\d+) would fit"
    ) as error:
        reserve(2, spec, 1_000_000, CPU)
    fits = int(str(error.value).split("--replay-capacity ")[1].split()[0])
    reserve(2, spec, fits, CPU)


def test_short_runs_take_less_and_never_more_than_the_capacity():
    settings = ReplaySettings(capacity=1_000_000, horizon=5)
    assert slots_needed(10_000, settings) == 20_000
    assert slots_needed(5_000_000, settings) == 1_000_000
    assert slots_needed(5_000_000, ReplaySettings(capacity=500, horizon=5)) == 500
