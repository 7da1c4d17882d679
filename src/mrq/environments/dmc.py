"""DeepMind Control tasks as Gymnasium environments, with the paper's settings: vectors or pixels as observations."""

import importlib
import os
from typing import Any

import gymnasium as gym
import numpy as np

from mrq.environments.contacts import keep_spinner_stiff
from mrq.environments.options import IMAGE_SIZE
from mrq.environments.rendering import advice, chosen_renderer, renderer
from mrq.errors import MRQError
from mrq.interface import Array

ACTION_REPEAT = 2
EPISODE_STEPS = 500
VIDEO_SIZE = (240, 320)  # height, width


def task_names() -> list[str]:
    """Returns domain-task for all of dm_control's suite except lqr, whose actions and episodes have no bounds."""
    return [f"{domain}-{task}" for domain, task in _suite().ALL_TASKS if domain != "lqr"]


class ControlTask(gym.Env[Array, Array]):
    """One task of dm_control's suite; its episodes never terminate."""

    max_episode_steps = EPISODE_STEPS

    def __init__(self, name: str, visual: bool = False, render_mode: str | None = None) -> None:
        domain, _, task = name.partition("-")
        self._environment = _suite().load(domain, task)
        if domain == "finger":
            keep_spinner_stiff(self._environment.physics)
        self._camera_id = 2 if domain == "quadruped" else 0
        self._steps = 0
        self.render_mode = render_mode
        rate = 1 / (ACTION_REPEAT * self._environment.control_timestep())
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": round(rate)}

        bounds = self._environment.action_spec()
        self._middle, self._half = (bounds.maximum + bounds.minimum) / 2, (bounds.maximum - bounds.minimum) / 2
        self.action_space = gym.spaces.Box(-1, 1, bounds.shape, np.float32)
        # quadruped-escape uploads its terrain to the renderer at every reset, even if nothing is rendered.
        if visual or render_mode is not None or name == "quadruped-escape":
            _start_rendering(name, self._environment.physics)
        self._camera: Any = None
        if visual:
            from dm_control.mujoco import Camera

            self._camera = Camera(self._environment.physics, IMAGE_SIZE, IMAGE_SIZE, self._camera_id)
            self.observation_space = gym.spaces.Box(0, 255, (3, IMAGE_SIZE, IMAGE_SIZE), np.uint8)
        else:
            size = sum(int(np.prod(part.shape)) for part in self._environment.observation_spec().values())
            self.observation_space = gym.spaces.Box(-np.inf, np.inf, (size,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(2**31))
        # This is all of a task's randomness. Its reset clears what the last episode left in MuJoCo, also warm starts.
        self._environment.task.random.seed(seed % 2**32)
        self._steps = 0
        return self._observed(self._environment.reset()), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        control = self._middle + self._half * action
        reward = 0.0
        for _ in range(ACTION_REPEAT):
            time_step = self._environment.step(control)
            reward += time_step.reward
            if time_step.last():
                break
        self._steps += 1
        truncated = time_step.last() or self._steps == EPISODE_STEPS
        return self._observed(time_step), float(reward), False, truncated, {}

    def render(self) -> Array | None:
        if self.render_mode is None:
            return None
        picture: Array = self._environment.physics.render(*VIDEO_SIZE, camera_id=self._camera_id)
        return picture

    def close(self) -> None:
        self._environment.physics.free()

    def _observed(self, time_step: Any) -> Array:
        if self._camera is not None:
            return np.ascontiguousarray(self._camera.render().transpose(2, 0, 1))
        return np.concatenate([np.ravel(part) for part in time_step.observation.values()], dtype=np.float32)


def _suite() -> Any:
    """Imports dm_control's suite without a renderer; `_start_rendering` adds one when a picture is needed."""
    with renderer("disable"):
        from dm_control import suite
    return suite


def _start_rendering(name: str, physics: Any) -> None:
    from dm_control import _render

    try:
        if _render.BACKEND == "off":
            with renderer(chosen_renderer()):
                importlib.reload(_render)
        physics.render(IMAGE_SIZE, IMAGE_SIZE)
    except Exception as error:  # PyOpenGL raises an AttributeError if a library is missing
        if not os.environ.get("MUJOCO_GL") and _render.BACKEND not in ("off", chosen_renderer()):
            raise MRQError(
                f"dm_control was imported before mrq and uses {_render.BACKEND}, which does not work here; "
                f"set MUJOCO_GL={chosen_renderer()} to render {name}."
            ) from error
        raise MRQError(f"{name} cannot be rendered: {advice(error)}") from error
