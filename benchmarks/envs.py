"""Measures `--envs`: steps/s of one agent in environments whose steps take 5 ms, waiting or computing.

python -m benchmarks.envs
"""

import os
import time
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from mrq import Hyperparameters
from mrq.markdown import markdown_table
from mrq.training.settings import Settings
from mrq.training.speed import ENVIRONMENTS, measure_speed

SECONDS = 0.005
# Small networks, so that updates do not hide the environments.
SMALL = Hyperparameters(hidden_width=64, state_embedding=32, state_action_embedding=32, batch_size=32)


class Slow(gym.Env[Any, Any]):
    """Takes 5 ms per step."""

    def __init__(self, computes: bool) -> None:
        self.observation_space, self.action_space = spaces.Box(-1, 1, (4,)), spaces.Box(-1, 1, (2,))
        self._computes = computes

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return np.zeros(4, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._computes:
            end = time.thread_time() + SECONDS
            while time.thread_time() < end:
                pass
        else:
            time.sleep(SECONDS)
        self._steps += 1
        return np.full(4, self._steps / 200, np.float32), 0.0, False, self._steps == 200, {}


def waits() -> Slow:
    return Slow(computes=False)


def computes() -> Slow:
    return Slow(computes=True)


def main() -> None:
    rows = []
    for what in ("waits", "computes"):
        for envs, workers, rate in ((1, None, 1.0), (8, None, 1.0), (8, 8, 1.0), (8, 8, 0.125)):
            settings = Settings(
                envs=envs, workers=workers, compile="off", hyperparameters=replace(SMALL, updates_per_step=rate)
            )
            speed = measure_speed([f"benchmarks.envs:{what}"], [0], settings, lambda _: None)
            alone = 1e3 / speed.milliseconds[ENVIRONMENTS]
            given = "default" if workers is None else str(workers)
            rows.append([what, str(envs), given, f"{rate:g}", f"{alone:,.0f}", f"{speed.steps_per_second:,.0f}"])
            print(rows[-1], flush=True)
    names = ["the environment", "--envs", "--workers", "--updates-per-step", "environments alone, steps/s", "steps/s"]
    print(f"{len(os.sched_getaffinity(0))} cores\n\n{markdown_table(names, rows)}")


if __name__ == "__main__":
    main()
