"""Trains one of Stable-Baselines3's algorithms as its users do, and writes its evaluations; see laptop.py.

python -m benchmarks.laptop_stable TASK ALGORITHM defaults|tuned SEED EVALUATE_EVERY EVALUATIONS.csv
"""

import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import stable_baselines3
from benchmarks.laptop_tuned import TUNED
from gymnasium.wrappers import FlattenObservation
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize, sync_envs_normalization

from mrq import make_environment

EPISODES = 10
NOISES = {"normal": NormalActionNoise, "ornstein-uhlenbeck": OrnsteinUhlenbeckActionNoise}


class Evaluations(BaseCallback):
    """Evaluates every so many steps, deterministically, and adds a row to a CSV."""

    def __init__(self, environment: VecEnv, every: int, path: Path) -> None:
        super().__init__()
        self._environment, self._every, self._path, self._began = environment, every, path, time.monotonic()
        self._due = every
        path.write_text("step,return_mean,seconds\n")

    def _on_step(self) -> bool:
        if self.num_timesteps >= self._due:
            self._due += self._every
            if isinstance(self._environment, VecNormalize):
                sync_envs_normalization(self.training_env, self._environment)
            mean, _ = evaluate_policy(self.model, self._environment, EPISODES)
            with self._path.open("a") as file:
                file.write(f"{self.num_timesteps},{mean},{time.monotonic() - self._began}\n")
        return True


def made(task: str, count: int, normalised: bool, training: bool) -> VecEnv:
    """Returns environments as Stable-Baselines3 takes them."""

    def one() -> gym.Env[Any, Any]:
        environment = make_environment(task)
        return Monitor(environment if "/" not in task else FlattenObservation(environment))

    environments: VecEnv = DummyVecEnv([one] * count)
    return VecNormalize(environments, training=training, norm_reward=training) if normalised else environments


def main(task: str, algorithm: str, settings: str, seed: str, every: str, evaluations: str) -> None:
    options: dict[str, Any] = dict(TUNED[algorithm, task]) if settings == "tuned" else {}
    count, normalised = options.pop("n_envs", 1), options.pop("normalize", False)
    total_steps = options.pop("n_timesteps", 1_000_000)  # schedules end there
    environments = made(task, count, normalised, training=True)
    if (noise := options.pop("noise_type", None)) is not None:
        size = environments.action_space.shape[0]
        options["action_noise"] = NOISES[noise](np.zeros(size), options.pop("noise_std") * np.ones(size))
    model = getattr(stable_baselines3, algorithm.upper())(
        "MlpPolicy", environments, seed=int(seed), device="cpu", **options
    )
    callback = Evaluations(made(task, 1, normalised, training=False), int(every), Path(evaluations))
    model.learn(total_steps, callback=callback)


if __name__ == "__main__":
    main(*sys.argv[1:])
