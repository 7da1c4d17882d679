"""Contacts as the paper's MuJoCo computes them, 3.2.2, which gave the numbers here."""

import numpy as np
import pytest

from mrq.environments.making import make_environment


@pytest.mark.parametrize(
    ("task", "position", "velocity"),
    [
        ("Ant-v4", [0.83377, -0.99593, 0.74435], [-0.17078, -0.31837, 2.06288]),
        ("Hopper-v4", [-0.02157, 1.20206, -0.06492], [-0.4679, 0.12967, -2.01272]),
        ("Humanoid-v4", [-0.05139, -0.05507, 1.02869], [0.08258, -0.21874, -2.00473]),
    ],
)
def test_the_ground_is_felt_from_the_same_height_on(task, position, velocity):
    environment = make_environment(f"gym/{task}")
    environment.reset(seed=0)
    draws, bound = np.random.default_rng(0), environment.action_space.high
    for _ in range(20):
        environment.step((draws.uniform(-1, 1, bound.shape) * bound).astype(np.float32))
    np.testing.assert_allclose(environment.unwrapped.data.qpos[:3], position, atol=1e-4)
    np.testing.assert_allclose(environment.unwrapped.data.qvel[:3], velocity, atol=1e-3)


def test_a_finger_sets_its_spinner_in_motion():
    environment = make_environment("dmc/finger-spin")
    environment.reset(seed=0)
    for action in np.random.default_rng(0).uniform(-1, 1, (5, 2)).astype(np.float32):
        observation, *_ = environment.step(action)
    position, velocity = observation[:4], observation[4:7]
    np.testing.assert_allclose(position, [0.27876, 0.97802, -0.05838, 0.11616], atol=1e-4)
    np.testing.assert_allclose(velocity, [1.39028, 5.27001, -1.37011], atol=1e-3)
