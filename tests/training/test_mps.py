"""Device work as Apple's GPUs need it, on PyTorch's meta device: its tensors have types and places, but no numbers.

As on Apple's GPUs, no operation may mix its tensors with the host's.
"""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mrq.algorithms import noise_blocks
from mrq.environments.checked import CheckedEnvironment
from mrq.environments.local import LocalEnvironments
from mrq.environments.options import EnvironmentOptions
from mrq.environments.recipe import Recipe
from mrq.execution import widest_float
from mrq.interface import Identity
from mrq.replay import buffer, priorities
from mrq.training import loop
from mrq.training.building import build_population

META = torch.device("meta")


class WithoutFloat64(TorchDispatchMode):
    """Refuses float64 on the device."""

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        tensors = [leaf for leaf in tree_leaves((arguments, result)) if isinstance(leaf, torch.Tensor)]
        assert not any(tensor.dtype == torch.float64 and tensor.device == META for tensor in tensors), function
        return result


def work(task, hyperparameters):
    """Steps, then does the first burst of encoder updates and the first update of value and policy."""
    recipe = Recipe(task, EnvironmentOptions())
    environments = LocalEnvironments([CheckedEnvironment(recipe.make_one(), recipe.options, False)], [task])
    with WithoutFloat64():
        population = build_population([Identity(task, 0)], environments, hyperparameters, META)
        for _ in range(hyperparameters.random_steps):
            loop.step(population)
        learner = population.learner
        learner.update(hyperparameters.random_steps + 1, lambda: False)
    return learner.updates, learner.encoder_updates


@pytest.mark.parametrize("task", ["Pendulum-v1", "CartPole-v1"])
def test_updates_need_neither_float64_nor_the_hosts_memory(task, small, monkeypatch):
    with pytest.raises(AssertionError, match="aten"):
        work(task, small)
    for module in (buffer, noise_blocks, priorities):
        monkeypatch.setattr(module, "widest_float", lambda device: widest_float(torch.device("mps")))
    assert work(task, small) == (1, small.target_period)
