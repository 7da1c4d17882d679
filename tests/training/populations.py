"""Builds, advances and compares populations for tests."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from mrq.environments.checked import CheckedEnvironment
from mrq.environments.local import LocalEnvironments
from mrq.execution import accelerate
from mrq.interface import Identity
from mrq.training.building import build_population
from mrq.training.loop import step, update
from tests.environments_for_tests import Counting, HybridTarget, Masked, Pixels, Workshop

CPU = torch.device("cpu")


def never() -> bool:
    return False


def population(make, seeds, h, steps=200, device=CPU, **options):
    """Builds an agent per seed, all in the same kind of environment, with room for so many steps."""
    return fleet([make] * len(seeds), seeds, h, steps, device, **options)


def fleet(makes, seeds, h, steps=200, device=CPU, copies=1, **options):
    """Builds an agent per kind of environment and seed, with so many environments and room for so many steps."""
    identities = [Identity("task", seed) for seed in seeds]
    made = [checked(make()) for make in makes for _ in range(copies)]
    environments = LocalEnvironments(made, [identity.name for identity in identities for _ in range(copies)])
    made = build_population(identities, environments, h, device, **options)
    made.expect(steps)
    return made


def checked(environment):
    """Wraps an environment, which may say which actions are allowed."""
    masked = CheckedEnvironment(environment).gives_masks(0)
    return CheckedEnvironment(environment, masked=masked)


def advance(population, steps):
    """Takes steps, with the updates that they call for."""
    end = population.steps + steps
    while population.steps < end:
        step(population)
        update(population, never)


def failed(error) -> None:
    raise AssertionError("compiling or capturing failed") from error


def accelerated(population):
    """Compiles, and on a GPU captures, all of a population's work; a failure fails the test."""
    accelerate(population.works, population.device, failed)
    return population


def assert_equal(ours, theirs):
    """Compares two agents' states, to the last bit."""
    (tensors, arrays, counters), (own, own_arrays, own_counters) = ours, theirs
    assert counters == own_counters
    for name, tensor in tensors.items():
        assert torch.equal(tensor, own[name]), name
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, own_arrays[name], err_msg=name)


def numbers_in(value):
    """Returns the numbers in nested lists; None holds none."""
    if isinstance(value, list):
        return [number for part in value for number in numbers_in(part)]
    return [] if value is None else [value]


def assert_alike(ours, theirs):
    """Compares two agents' states, up to the rounding that batching and compiling bring."""
    (tensors, arrays, counters), (own, own_arrays, own_counters) = ours, theirs
    for name in ("episode_return", "next_action"):
        numbers, expected = numbers_in(counters.pop(name)), numbers_in(own_counters.pop(name))
        assert numbers == pytest.approx(expected, rel=1e-3, abs=1e-3)
    assert counters == own_counters
    assert arrays.keys() == own_arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_allclose(array, own_arrays[name], rtol=1e-3, atol=1e-3, err_msg=name)
    assert tensors.keys() == own.keys()
    for name in tensors:
        # AdamW turns any gradient, however small, into a step; its moments hold the gradients themselves.
        tolerance = 2e-5 * float(own[name].abs().max()) if name.startswith(("mean.", "square.")) else 2e-4
        torch.testing.assert_close(
            tensors[name], own[name], rtol=1e-2, atol=max(tolerance, 1e-7), msg=lambda m, n=name: n + m
        )


KINDS = pytest.mark.parametrize(
    ("make", "steps"),
    [
        (lambda: gym.make("Pendulum-v1"), 110),
        (lambda: gym.make("CartPole-v1"), 110),
        (HybridTarget, 80),
        (Masked, 80),
        pytest.param(Pixels, 62, marks=pytest.mark.slow),
        pytest.param(Workshop, 60, marks=pytest.mark.slow),
    ],
    ids=["box", "discrete", "hybrid", "masked", "pixels", "parts"],
)

FLEETS = pytest.mark.parametrize(
    "makes",
    [
        (lambda: gym.make("Pendulum-v1"), lambda: gym.make("Reacher-v4"), Counting),
        (lambda: gym.make("CartPole-v1"), lambda: gym.make("Acrobot-v1"), lambda: gym.make("MountainCar-v0")),
        (Masked, lambda: Masked(lengths=(4,))),
        pytest.param((Pixels, lambda: Pixels(actions=5)), marks=pytest.mark.slow),
    ],
    ids=["box", "discrete", "masked", "pixels"],
)
