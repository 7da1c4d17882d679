"""What cannot fit into memory is refused before it is taken."""

import numpy as np
import pytest
import torch

from mrq import MRQ, MRQError, memory
from mrq.algorithms.drqv2.hyperparameters import Hyperparameters as OfDrQV2
from mrq.algorithms.drqv2.memory import bytes_needed as bytes_of_drqv2
from mrq.algorithms.mrq.hyperparameters import Hyperparameters
from mrq.algorithms.mrq.memory import bytes_needed
from mrq.algorithms.mrq.networks import initial_networks, parameter_count
from mrq.interface import Image, Spec

VECTORS, IMAGES = Spec(numbers=17, continuous=6), Spec((Image(3, 84, 84),), history=3, continuous=6)
GIGABYTE = 10**9


@pytest.fixture(autouse=True)
def free(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda device: 20 * GIGABYTE)


@pytest.mark.parametrize("spec", [VECTORS, IMAGES])
@pytest.mark.parametrize("h", [Hyperparameters(), Hyperparameters(linear_value=True, linear_model=False)])
def test_parameters_are_counted_without_drawing_them(spec, h):
    networks = initial_networks(np.random.default_rng(0), spec, h)
    drawn = sum(tensor.numel() for network in networks.values() for tensor in network.values())
    assert parameter_count(spec, h) == drawn


def test_ten_agents_with_the_papers_hyperparameters_fit_easily():
    for spec in (VECTORS, IMAGES):
        assert bytes_needed([spec] * 10, Hyperparameters()) < 2 * GIGABYTE
    assert bytes_of_drqv2([IMAGES] * 10, OfDrQV2()) < 2 * GIGABYTE


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_width": 65_536},
        {"state_embedding": 65_536, "hidden_width": 10_000},
        {"target_period": 10**10},
        {"batch_size": 65_536, "encoder_horizon": 50, "hidden_width": 1_024},
    ],
)
def test_agents_that_cannot_fit_are_refused_before_they_are_made(changes):
    with pytest.raises(MRQError, match=r"^the agents would take .* GB or more and cpu has 20\.0 GB free; use smaller"):
        MRQ("Pendulum-v1", hyperparameters=Hyperparameters(**changes), device="cpu")


def test_those_of_drqv2_as_well():
    with pytest.raises(MRQError, match=r"^the agents would take 15[0-9]\.\d GB or more"):
        memory.refuse_beyond_memory(bytes_of_drqv2([IMAGES], OfDrQV2(hidden_width=65_536)), torch.device("cpu"))
