"""Contacts are as in the paper's MuJoCo; its version 3.2.2 gave the numbers here."""

import gymnasium as gym
import numpy as np
import pytest

from mrq.environments import dmc
from mrq.environments.making import make_environment


@pytest.mark.parametrize(
    ("task", "position", "velocity"),
    [
        ("Ant-v4", [0.83377, -0.99593, 0.74435], [-0.17078, -0.31837, 2.06288]),
        ("Hopper-v4", [-0.02157, 1.20206, -0.06492], [-0.4679, 0.12967, -2.01272]),
        ("Humanoid-v4", [-0.05139, -0.05507, 1.02869], [0.08258, -0.21874, -2.00473]),
    ],
)
def test_contact_with_the_ground_begins_at_the_same_height(task, position, velocity):
    made = make_environment(f"gym/{task}")
    for environment in (made, gym.make(made.spec)):
        environment.reset(seed=0)
        draws, bound = np.random.default_rng(0), environment.action_space.high
        for _ in range(20):
            environment.step((draws.uniform(-1, 1, bound.shape) * bound).astype(np.float32))
        np.testing.assert_allclose(environment.unwrapped.data.qpos[:3], position, atol=1e-4)
        np.testing.assert_allclose(environment.unwrapped.data.qvel[:3], velocity, atol=1e-3)


def test_a_users_own_model_is_not_changed():
    theirs = make_environment("Ant-v5").unwrapped
    ours = make_environment("Ant-v4", xml_file=theirs.fullpath).unwrapped
    assert ours.model.geom_margin.tolist() == theirs.model.geom_margin.tolist() == [0.01] * ours.model.ngeom


@pytest.mark.parametrize("soft", [False, True])
def test_the_finger_turns_its_spinner(soft, monkeypatch):
    suite = dmc._suite()
    load = suite.load

    def load_soft(*arguments):  # as MuJoCo 3.5 and 3.6 do it
        environment = load(*arguments)
        inverse_weights = environment.physics.named.model.body_invweight0
        inverse_weights["spinner", 0] = inverse_weights["spinner", 1]
        return environment

    if soft:
        monkeypatch.setattr(suite, "load", load_soft)
    environment = make_environment("dmc/finger-spin")
    environment.reset(seed=0)
    for action in np.random.default_rng(0).uniform(-1, 1, (5, 2)).astype(np.float32):
        observation, *_ = environment.step(action)
    position, velocity = observation[:4], observation[4:7]
    np.testing.assert_allclose(position, [0.27876, 0.97802, -0.05838, 0.11616], atol=1e-4)
    np.testing.assert_allclose(velocity, [1.39028, 5.27001, -1.37011], atol=1e-3)
