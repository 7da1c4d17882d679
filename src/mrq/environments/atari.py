"""Atari games as Gymnasium environments, with the paper's preprocessing; an observation is one grey frame."""

import os
from typing import Any

import gymnasium as gym
import numpy as np

from mrq.environments.options import IMAGE_SIZE
from mrq.errors import MRQError, one_line
from mrq.interface import Array

FRAME_SKIP = 4
EPISODE_FRAMES = 108_000
ENLARGED = (5, 4)  # height and width of a pixel in a video; about the screen's proportions


def task_names() -> list[str]:
    """Returns the games' names as in ALE/Name-v5."""
    return list(_roms())


class AtariGame(gym.Env[Array, np.int64]):
    """One game, emulated and preprocessed by ALE in C++."""

    max_episode_steps = EPISODE_FRAMES // FRAME_SKIP

    def __init__(self, name: str, render_mode: str | None = None) -> None:
        from ale_py.vector_env import AtariVectorEnv

        try:
            self._games = AtariVectorEnv(
                _roms()[name],
                num_envs=1,
                num_threads=1,
                max_num_frames_per_episode=EPISODE_FRAMES,
                repeat_action_probability=0.25,
                full_action_space=False,
                autoreset_mode="NextStep",  # keeps an episode's last observation; reset() comes before the next step
                img_height=IMAGE_SIZE,
                img_width=IMAGE_SIZE,
                grayscale=True,
                stack_num=1,
                frameskip=FRAME_SKIP,
                maxpool=True,
                noop_max=0,
                episodic_life=False,
                reward_clipping=False,
                use_fire_reset=False,
            )
        except OSError as error:  # the ROM is missing or damaged
            own_folder = "ALE_ROMS_DIR" in os.environ
            fix = "unset ALE_ROMS_DIR." if own_folder else "run: pip install --force-reinstall ale-py"
            raise MRQError(f"the game's ROM cannot be read: {one_line(error)}; {fix}") from error
        self.observation_space = gym.spaces.Box(0, 255, (IMAGE_SIZE, IMAGE_SIZE), np.uint8)
        self.action_space = self._games.single_action_space
        self.render_mode = render_mode
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 60 // FRAME_SKIP}
        self._frame = np.zeros((IMAGE_SIZE, IMAGE_SIZE), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(2**31))
        frames, _ = self._games.reset(seed=seed % 2**31)
        self._frame = frames[0, 0]
        return self._frame, {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):  # the emulator would wait forever
            raise ValueError(f"the action {action} is not in {self.action_space}")
        frames, rewards, terminated, truncated, _ = self._games.step(np.array([action]))
        self._frame = frames[0, 0]
        return self._frame, float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}

    def render(self) -> Array | None:
        """Returns what the agent sees, enlarged; the emulator does not give access to its colours."""
        if self.render_mode is None:
            return None
        return np.kron(self._frame[..., None], np.ones((*ENLARGED, 3), np.uint8))


def paper_name(environment: gym.Env[Any, Any]) -> str:
    """Returns the task with the paper's protocol of one of ALE's own environments; "" for any other environment."""
    own = environment.unwrapped
    if type(own).__module__.partition(".")[0] != "ale_py" or own.spec is None:
        return ""
    games = {game: name for name, game in _roms().items()}
    name = games.get(own.spec.kwargs.get("game", ""))
    return f"atari/{name}" if name else ""


def _roms() -> dict[str, str]:
    import ale_py

    gym.register_envs(ale_py)
    return {spec.name: spec.kwargs["game"] for spec in gym.registry.values() if spec.namespace == "ALE"}
