import os
import subprocess
import sys

import numpy as np
import pytest
from dm_env import StepType

from mrq.environments.making import make_environment
from mrq.environments.spaces import Translator

RESTARTED = ["cheetah-run", "dog-run", "humanoid-run", "quadruped-fetch", "manipulator-bring_ball", "finger-turn_hard"]
RESTARTED += ["fish-swim", "hopper-stand", "point_mass-hard", "reacher-hard", "stacker-stack_2", "swimmer-swimmer6"]
RESTARTED += ["acrobot-swingup", "humanoid_CMU-run", "walker-walk"]


def raw(domain, task, seed):
    from dm_control import suite  # after mrq.environments.dmc has imported it without a renderer

    return suite.load(domain, task, task_kwargs={"random": seed})


def flat(time_step):
    return np.concatenate([np.ravel(part) for part in time_step.observation.values()]).astype(np.float32)


def actions(environment, count, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (count, *environment.action_space.shape)).astype(np.float32)


def trajectory(environment, seed, steps):
    frames = [environment.reset(seed=seed)[0]]
    for action in actions(environment, steps, seed):
        observation, reward, *_ = environment.step(action)
        frames += [observation, np.float64(reward)]
    return np.concatenate([np.ravel(frame) for frame in frames])


@pytest.mark.parametrize(
    ("domain", "task", "size"), [("cheetah", "run", 17), ("ball_in_cup", "catch", 8), ("quadruped", "walk", 78)]
)
def test_an_action_is_two_steps_of_dm_control_and_its_reward_their_sum(domain, task, size):
    environment = make_environment(f"dmc/{domain}-{task}")
    theirs = raw(domain, task, 5)
    spec = theirs.action_spec()
    observation, _ = environment.reset(seed=5)
    assert observation.shape == environment.observation_space.shape == (size,)
    assert observation.dtype == environment.observation_space.dtype == np.float32
    np.testing.assert_array_equal(observation, flat(theirs.reset()))
    for action in actions(environment, 20):
        control = spec.minimum + (action.astype(np.float64) + 1) / 2 * (spec.maximum - spec.minimum)
        first, second = theirs.step(control), theirs.step(control)
        observation, reward, *_ = environment.step(action)
        np.testing.assert_allclose(observation, flat(second), rtol=1e-4, atol=1e-4)
        assert reward == pytest.approx(first.reward + second.reward, abs=1e-6)


def test_actions_span_the_tasks_own_bounds():
    environment = make_environment("dmc/quadruped-run")
    physics = environment._environment.physics
    spec = raw("quadruped", "run", 0).action_spec()
    assert not np.array_equal(np.abs(spec.minimum), spec.maximum)  # not just [-1, 1]
    environment.reset(seed=0)
    for action, bound in [(-1, spec.minimum), (1, spec.maximum), (0, (spec.minimum + spec.maximum) / 2)]:
        environment.step(np.full(environment.action_space.shape, action, np.float32))
        np.testing.assert_allclose(physics.data.ctrl, bound, atol=1e-12)


def test_an_episode_is_500_steps_and_is_truncated():
    environment = make_environment("dmc/cartpole-swingup_sparse")
    for _ in range(2):
        environment.reset(seed=0)
        flags = [environment.step(action)[2:4] for action in actions(environment, 500)]
        assert flags == [(False, False)] * 499 + [(False, True)]


def test_a_task_that_ends_early_is_truncated_and_not_stepped_on(monkeypatch):
    environment = make_environment("dmc/hopper-hop")
    environment.reset(seed=0)
    theirs = environment._environment
    step, calls = theirs.step, []

    def last(control):
        calls.append(control)
        return step(control)._replace(step_type=StepType.LAST, reward=0.25)

    monkeypatch.setattr(theirs, "step", last)
    _, reward, terminated, truncated, _ = environment.step(np.zeros(4, np.float32))
    assert (len(calls), reward, terminated, truncated) == (1, 0.25, False, True)


@pytest.mark.parametrize("name", RESTARTED)
def test_an_episode_is_a_function_of_its_seed(name):
    used = make_environment(f"dmc/{name}")
    others = [trajectory(used, seed, steps) for seed, steps in [(1, 30), (2, 7)]]
    fresh = make_environment(f"dmc/{name}")
    expected = trajectory(fresh, 3, 30)
    np.testing.assert_array_equal(trajectory(used, 3, 30), expected)
    assert not np.array_equal(others[0], expected)
    np.testing.assert_array_equal(trajectory(fresh, 1, 30), others[0])


def test_without_a_seed_episodes_differ_and_follow_from_the_last_seed():
    environment = make_environment("dmc/reacher-easy")
    first, second = environment.reset()[0], environment.reset()[0]
    assert not np.array_equal(first, second)
    environment.reset(seed=2**40)
    first = environment.reset()[0]
    environment.reset(seed=2**40)
    np.testing.assert_array_equal(environment.reset()[0], first)


WITHOUT_GL = """
import ctypes, ctypes.util
load, find = ctypes.CDLL.__init__, ctypes.util.find_library
def load_but_gl(self, name, *arguments, **options):
    if name and any(word in str(name) for word in ("GL", "OSMesa")):
        raise OSError(f"{name}: cannot open shared object file")
    load(self, name, *arguments, **options)
ctypes.CDLL.__init__ = load_but_gl
ctypes.util.find_library = lambda name: None if name in ("EGL", "GL", "OSMesa") else find(name)

import os
from mrq import MRQError
from mrq.environments.making import make_environment
for again in range(2):
    environment = make_environment("dmc/cheetah-run")
    environment.reset(seed=0)
    environment.step(environment.action_space.sample())
    for task, options in [("dmc-visual/cheetah-run", {}), ("dmc/cheetah-run", {"render_mode": "rgb_array"})]:
        try:
            make_environment(task, **options)
        except MRQError as error:
            assert "libegl1" in str(error) and "\\n" not in str(error), error
        else:
            raise AssertionError("a picture without a renderer")
print("played", os.environ.get("MUJOCO_GL"))
"""


@pytest.mark.parametrize("renderer", ["egl", None])
def test_vectors_need_no_renderer_and_pictures_say_what_they_need(renderer):
    variables = {key: value for key, value in os.environ.items() if key not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    variables |= {"MUJOCO_GL": renderer} if renderer else {}
    ended = subprocess.run([sys.executable, "-c", WITHOUT_GL], env=variables, capture_output=True, text=True)
    assert ended.stdout.strip() == f"played {renderer}", ended.stderr


@pytest.mark.parametrize(("domain", "task", "camera"), [("walker", "walk", 0), ("quadruped", "walk", 2)])
def test_pixels(domain, task, camera, renderer):
    environment = make_environment(f"dmc-visual/{domain}-{task}")
    assert Translator(environment.observation_space, environment.action_space).spec.state_shape == (9, 84, 84)
    theirs = raw(domain, task, 5)
    theirs.reset()
    first, _ = environment.reset(seed=5)
    np.testing.assert_array_equal(first, theirs.physics.render(84, 84, camera_id=camera).transpose(2, 0, 1))
    assert first.dtype == np.uint8
    assert first.flags.c_contiguous
    assert first.std() > 5
    kept = first.copy()
    for action in actions(environment, 5):
        observation, *_ = environment.step(action)
    np.testing.assert_array_equal(first, kept)  # no buffer that later frames overwrite
    assert not np.array_equal(observation, first)


def test_rendering_a_vector_task_for_a_video(renderer):
    environment = make_environment("dmc/cheetah-run", render_mode="rgb_array")
    assert environment.metadata["render_fps"] == 50
    observation, _ = environment.reset(seed=0)
    assert observation.shape == (17,)
    picture = environment.render()
    assert picture.shape == (240, 320, 3)
    assert picture.dtype == np.uint8
    assert picture.std() > 5
    environment.close()
    environment.close()
