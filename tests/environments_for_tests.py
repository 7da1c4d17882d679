"""Small environments whose results can be worked out by hand."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Counting(gym.Env[np.ndarray, np.ndarray]):
    """Observes (episode, step). The reward is 100 * episode + step, so every window can be checked by arithmetic.

    Episode e lasts lengths[e % len(lengths)] steps and terminates or is truncated as ends[e % len(ends)] says.
    """

    def __init__(
        self, lengths: tuple[int, ...] = (7, 3, 12), ends: tuple[str, ...] = ("terminated", "truncated")
    ) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)
        self.lengths, self.ends, self.max_episode_steps = lengths, ends, max(lengths)
        self.episode, self.step_count = -1, 0

    def _observation(self) -> np.ndarray:
        return np.array([self.episode, self.step_count], np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.episode += 1
        self.step_count = 0
        return self._observation(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        reward = 100.0 * self.episode + self.step_count
        self.step_count += 1
        over = self.step_count == self.lengths[self.episode % len(self.lengths)]
        end = self.ends[self.episode % len(self.ends)]
        return self._observation(), reward, over and end == "terminated", over and end == "truncated", {}


class Pixels(gym.Env[np.ndarray, np.int64]):
    """Shows grey 84x84 images of a bright column. The two actions move it; the reward is 1 at the right edge."""

    def __init__(self, episode_steps: int = 20, actions: int = 2) -> None:
        self.observation_space = spaces.Box(0, 255, (84, 84), np.uint8)
        self.action_space = spaces.Discrete(actions, start=5)
        self.episode_steps = episode_steps

    def _observation(self) -> np.ndarray:
        image = np.zeros((84, 84), np.uint8)
        image[:, self.place * 8 : self.place * 8 + 8] = 200
        return image

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.place, self.step_count = int(self.np_random.integers(3, 7)), 0
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert self.action_space.contains(action)
        self.place = int(np.clip(self.place + (1 if action == 6 else -1), 0, 9))
        self.step_count += 1
        return self._observation(), float(self.place == 9), False, self.step_count >= self.episode_steps, {}


class Target(gym.Env[np.ndarray, np.ndarray]):
    """Has one-step episodes, and rewards the action that the observation shows: it is learned in a few updates."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1, 1, (1,), np.float64)
        self.action_space = spaces.Box(0, 10, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.goal = self.np_random.uniform(-0.8, 0.8)
        return np.array([self.goal]), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        return np.array([self.goal]), -abs(float(action[0]) / 5 - 1 - self.goal), True, False, {}


class Lost:
    """A number that cannot be read, like a tensor with a gradient."""

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise RuntimeError("device lost")


class Wordless:
    """A value that cannot be printed."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


class Beyond(BaseException):
    """An exception that is not an Exception."""


class Broken(Counting):
    """Misbehaves at its 30th step, as `fault` says."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault, self.total = fault, 0

    def step(self, action: np.ndarray) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        self.total += 1
        if self.total < 30:
            return observation, reward, terminated, truncated, info
        match self.fault:
            case "nan observation":
                observation[0] = np.nan
            case "infinite observation":
                observation[1] = np.inf
            case "wrong shape":
                observation = np.zeros(3, np.float32)
            case "wrong dtype":
                observation = np.array(["a", "b"])
            case "nan reward":
                reward = float("nan")
            case "old api":
                return observation, reward, terminated, info
            case "wrong flag":
                terminated = 1
            case "ragged reward":
                reward = [[1], [1, 2]]
            case "observation that is lost":
                observation = Lost()
            case "reward that is lost":
                reward = Lost()
            case "flag without words":
                terminated = Wordless()
            case "raises":
                raise ZeroDivisionError("division by zero")
            case "raises what is no Exception":
                raise Beyond("reach")
        return observation, reward, terminated, truncated, info


def nan_observation() -> Broken:
    return Broken("nan observation")


class Doomed(Counting):
    """Calls `what` at its fifth step, for example to end its process."""

    def __init__(self, what: Callable[[], None]) -> None:
        super().__init__(lengths=(100,))
        self.what = what

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        if self.step_count == 4:
            self.what()
        return super().step(action)


def exits() -> Doomed:
    return Doomed(lambda: os._exit(3))


def killed() -> Doomed:
    return Doomed(lambda: os.kill(os.getpid(), signal.SIGKILL))


def killed_after_a_fork() -> Doomed:
    def fork_and_die() -> None:
        if os.fork() == 0:
            time.sleep(20)  # and holds open what it inherited
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)

    return Doomed(fork_and_die)


def hangs() -> Doomed:
    return Doomed(lambda: time.sleep(3600))


class Slow(Counting):
    """Takes 50 ms per step."""

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        time.sleep(0.05)
        return super().step(action)


def exits_when_made() -> gym.Env:
    os._exit(3)


def fails_when_made() -> gym.Env:
    raise ValueError("no map")


def gives_up() -> gym.Env:
    sys.exit(4)


class Leaves(Counting):
    """Changes the working directory of its process."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        os.chdir("/")
        return super().reset(seed=seed)


class Server(Counting):
    """Keeps a program running until it is closed, and writes its process id to the file SERVERS."""

    def __init__(self) -> None:
        super().__init__()
        self.server = subprocess.Popen(["sleep", "60"])
        Path(os.environ["SERVERS"]).write_text(str(self.server.pid))

    def close(self) -> None:
        self.server.terminate()
        self.server.wait()


class Process(Counting):
    """Observes its process: the process id, and whether PyTorch is loaded."""

    def _observation(self) -> np.ndarray:
        return np.array([os.getpid(), "torch" in sys.modules], np.float32)


class Masked(Counting):
    """Has two choices, and says at each step which options are allowed; fails when another one is taken."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.action_space = spaces.MultiDiscrete([3, 2])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        observation, _ = super().reset(seed=seed)
        return observation, {"action_mask": self._mask(False)}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        mask = options_allowed(self.step_count)
        assert mask[action[0]], f"option {action[0]} is not allowed at step {self.step_count}"
        assert mask[3 + action[1]], f"option {action[1]} is not allowed at step {self.step_count}"
        observation, reward, terminated, truncated, _ = super().step(action)
        return observation, reward, terminated, truncated, {"action_mask": self._mask(terminated or truncated)}

    def _mask(self, over: bool) -> np.ndarray:
        return np.zeros(5, np.int8) if over else options_allowed(self.step_count).astype(np.int8)


class Unmasked(Masked):
    """The same, but it does not say which options are allowed, and allows all of them."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        return super().reset(seed=seed)[0], {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        return Counting.step(self, action)


def options_allowed(step: int) -> np.ndarray:
    """Returns which of 3 + 2 options are allowed: all of the first choice except one, and of the second one or both."""
    return np.array([step % 3 != 0, step % 3 != 1, step % 3 != 2, step % 4 != 1, step % 4 != 3])


class Workshop(Masked):
    """Shows a picture, numbers and a symbol beside the masks of its choices. A seed decides all of an episode."""

    def __init__(self) -> None:
        super().__init__(lengths=(9,))
        self.observation_space = spaces.Dict(
            picture=spaces.Box(0, 255, (40, 32, 3), np.uint8),
            place=spaces.Box(-1, 1, (2,), np.float64),
            symbol=spaces.Discrete(3, start=1),
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        self.episode = (seed or 0) % 2 - 1
        return super().reset(seed=seed)

    def _observation(self) -> Any:
        if self.step_count == 0:
            self.goal = self.np_random.uniform(-1, 1)
        picture = np.full((40, 32, 3), (10 * self.step_count, 100, 200), np.uint8)
        return {"picture": picture, "place": np.array([self.goal, 0.5]), "symbol": 1 + self.step_count % 3}


class HybridTarget(Target):
    """Rewards the number and the tool that the observation shows."""

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(goal=spaces.Box(-1, 1, (1,), np.float64), tool=spaces.Discrete(3))
        self.action_space = spaces.Dict(move=spaces.Box(0, 10, (1,), np.float32), tool=spaces.Discrete(3, start=1))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        goal, _ = super().reset(seed=seed)
        self.tool = int(self.np_random.integers(3))
        return {"goal": goal, "tool": self.tool}, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        assert self.action_space.contains(action)
        goal, reward, *flags, _ = super().step(action["move"])
        reward -= action["tool"] != self.tool + 1
        return {"goal": goal, "tool": self.tool}, reward, *flags, {}


class Ranking(gym.Env[np.ndarray, np.int64]):
    """Rewards four options in the order, or the opposite one, that the observation says; some are forbidden.

    It fails when one of these is taken. `best` adds up what the best allowed options would have brought.
    """

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = spaces.Discrete(4)
        self.best = 0.0

    def _draw(self) -> tuple[np.ndarray, dict]:
        self.side = int(self.np_random.integers(2))
        self.allowed = self.np_random.permutation(np.arange(4) < self.np_random.integers(1, 4))
        return np.array([2 * self.side - 1], np.float32), {"action_mask": self.allowed.astype(np.int8)}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.step_count = 0
        return self._draw()

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert self.allowed[action], f"option {action} is not allowed"
        rewards = (np.arange(4) if self.side else np.arange(4)[::-1]) / 3
        self.best += rewards[self.allowed].max()
        self.step_count += 1
        observation, info = self._draw()
        return observation, float(rewards[action]), self.step_count == 5, False, info


class Recall(gym.Env[np.ndarray, np.int64]):
    """Shows 1 or -1 in its first observation; its fourth and last step rewards the option that stands for it."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = spaces.Discrete(2)

    def _observation(self) -> np.ndarray:
        return np.array([0 if self.step_count else 2 * self.cue - 1, self.step_count / 4], np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.cue, self.step_count = int(self.np_random.integers(2)), 0
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.step_count += 1
        over = self.step_count == 4
        return self._observation(), (1.0 if action == self.cue else -1.0) * over, over, False, {}
