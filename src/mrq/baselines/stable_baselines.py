"""PPO, TD3, SAC and DQN from Stable-Baselines3, with its default hyperparameters."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mrq.baselines.baseline import Beginning, Kind
from mrq.errors import MRQError
from mrq.interface import Array

MODEL, REPLAY = "model.zip", "replay.pkl"
LARGEST_REPLAY = 1_000_000  # Stable-Baselines3's


class StableBaseline:
    def __init__(self, beginning: Beginning, algorithm: str) -> None:
        try:
            import stable_baselines3
        except ImportError:
            raise MRQError(f"{algorithm} needs Stable-Baselines3; run: pip install 'mrq-rl[baselines]'") from None
        environment, seed, total_steps, device, saved = beginning
        made = getattr(stable_baselines3, algorithm)
        self._off_policy = algorithm != "PPO"
        size = min(LARGEST_REPLAY, total_steps)  # a replay need not be larger than what it will hold
        if saved is None:
            policy = "CnnPolicy" if environment.spec_of_task.image else "MlpPolicy"
            options = {"buffer_size": size} if self._off_policy else {}
            self._model = made(policy, environment, seed=seed % 2**32, device=device, **options)
        else:
            self._model = made.load(saved / MODEL, environment, device=device)
            if self._off_policy:
                self._model.load_replay_buffer(saved / REPLAY)
                if self._model.buffer_size < size:  # fewer steps were asked for then
                    self._model.replay_buffer = _grown(self._model.replay_buffer, size)
                    self._model.buffer_size = size
        self.parameters = sum(p.numel() for p in self._model.policy.parameters() if p.requires_grad)

    @property
    def steps(self) -> int:
        return int(self._model.num_timesteps)

    def learn(self, total_steps: int, on_step: Callable[[], bool]) -> None:
        from stable_baselines3.common.callbacks import BaseCallback

        class AfterEveryStep(BaseCallback):
            def _on_step(self) -> bool:
                return on_step()

        left = total_steps - self.steps
        self._model.learn(left, callback=AfterEveryStep(), reset_num_timesteps=False, progress_bar=False)

    def act(self, states: Array) -> Array:
        actions: Array = self._model.predict(states, deterministic=True)[0]
        return actions

    def save(self, folder: Path) -> None:
        self._model.save(folder / MODEL)
        if self._off_policy:
            self._model.save_replay_buffer(folder / REPLAY)


def _grown(replay: Any, size: int) -> Any:
    """A replay of more places that holds the same, the oldest first."""
    oldest_first = np.roll(np.arange(replay.buffer_size), -replay.pos) if replay.full else np.arange(replay.pos)
    grown = type(replay)(size, replay.observation_space, replay.action_space, replay.device, replay.n_envs)
    for name in ("observations", "next_observations", "actions", "rewards", "dones", "timeouts"):
        getattr(grown, name)[: len(oldest_first)] = getattr(replay, name)[oldest_first]
    grown.pos = len(oldest_first)
    return grown


def _kind(name: str, *actions: str) -> Kind:
    return Kind(name, actions, partial(StableBaseline, algorithm=name))


PPO = _kind("PPO", "discrete", "continuous")
TD3 = _kind("TD3", "continuous")
SAC = _kind("SAC", "continuous")
DQN = _kind("DQN", "discrete")
