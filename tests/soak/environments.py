"""Environments of the soak: one with short episodes, and one that misbehaves as it is told."""

import os
import time
from typing import Any

import gymnasium as gym
import numpy as np

FAULT = "SOAK_FAULT"  # an environment variable: the fault, a colon, and the call at which it shows
HOSTILE_TEXT = "\x1b[2J\u202e | ![](http://evil.example) \ud800 =1+1\n" * 50


def swing() -> gym.Env[Any, Any]:
    """Makes Pendulum with episodes of 25 steps."""
    return gym.make("Pendulum-v1", max_episode_steps=25)


class Deaf(Exception):
    """An exception whose message cannot be made."""

    def __str__(self) -> str:
        raise ValueError("no words")


class Number:
    """A number that cannot be read."""

    def __float__(self) -> float:
        raise RuntimeError("no number")


# What goes wrong, by name: what a call returns instead of its result, or what it raises or does.
RESULTS: dict[str, Any] = {
    "nothing": None,
    "text": "x",
    "empty": (),
    "too many": (1,) * 9,
    "itself": object(),
}
OBSERVATIONS: dict[str, Any] = {
    "nan observation": np.full(3, np.nan, np.float32),
    "infinite observation": np.full(3, np.inf, np.float32),
    "huge observation": np.full(3, 1e300),
    "short observation": np.zeros(2, np.float32),
    "deep observation": np.zeros((3, 1), np.float32),
    "text observation": np.array(["a", "b", "c"]),
    "object observation": np.array([object()] * 3, dtype=object),
    "complex observation": np.zeros(3, np.complex64),
    "no observation": None,
}
REWARDS: dict[str, Any] = {
    "nan reward": float("nan"),
    "infinite reward": float("-inf"),
    "huge reward": 1e300,
    "large reward": 3e38,
    "endless reward": 10**400,
    "complex reward": 1j,
    "text reward": "1",
    "no reward": None,
    "long reward": np.zeros(3),
    "lost reward": Number(),
}
FLAGS: dict[str, Any] = {"text flag": "yes", "no flag": None, "long flag": np.ones(3), "nan flag": float("nan")}
RAISED: dict[str, BaseException] = {
    "raises": ZeroDivisionError("division by zero"),
    "raises hostile text": RuntimeError(HOSTILE_TEXT),
    "raises without words": Deaf(),
    "interrupts": KeyboardInterrupt(),
    "exits": SystemExit(0),
    "raises out of memory": MemoryError(),
    "raises recursion": RecursionError("too deep"),
    "stops": StopIteration(),
    "raises a base exception": BaseException("beyond"),
}
ACTIONS = {
    "hangs": lambda: time.sleep(3600),
    "dies": lambda: os._exit(0),
    "aborts": os.abort,
    "leaves": lambda: os.chdir("/"),
    "closes its input": lambda: os.close(0),
}
FAULTS = sorted({*RESULTS, *OBSERVATIONS, *REWARDS, *FLAGS, *RAISED, *ACTIONS})


class Misbehaving(gym.Env[Any, Any]):
    """Has one fault, at one call of its constructor, reset and step, counted together."""

    def __init__(self) -> None:
        self.fault, _, at = os.environ.get(FAULT, "none:0").partition(":")
        self.left = int(at)  # calls
        self.observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
        self.action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        self._goes_wrong()

    def _goes_wrong(self) -> bool:
        self.left -= 1
        if self.left != 0:
            return False
        if self.fault in RAISED:
            raise RAISED[self.fault]
        if self.fault in ACTIONS:
            ACTIONS[self.fault]()
        return True

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        wrong = self._goes_wrong()
        if wrong and self.fault in RESULTS:
            return RESULTS[self.fault]
        return (OBSERVATIONS[self.fault] if wrong and self.fault in OBSERVATIONS else self._observation()), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        wrong = self._goes_wrong()
        if wrong and self.fault in RESULTS:
            return RESULTS[self.fault]
        observation = OBSERVATIONS[self.fault] if wrong and self.fault in OBSERVATIONS else self._observation()
        reward = REWARDS[self.fault] if wrong and self.fault in REWARDS else 1.0
        terminated = FLAGS[self.fault] if wrong and self.fault in FLAGS else False
        return observation, reward, terminated, self.steps >= 10, {}

    def _observation(self) -> Any:
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)
