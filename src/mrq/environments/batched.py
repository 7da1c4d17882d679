"""An agent's environments as Stable-Baselines3 hands them out: batches, with episodes that begin by themselves."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from mrq.environments.making import Environment
from mrq.interface import Array

Infos = list[dict[str, Any]]


class BatchedEnvironments:
    """Several environments, stepped one after another."""

    def __init__(self, environments: Sequence[Environment], on_use: Callable[[], None]) -> None:
        """`on_use` is called whenever they are reset or stepped."""
        self._environments, self._on_use = environments, on_use
        self.num_envs = len(environments)
        self.observation_space, self.action_space = environments[0].observation_space, environments[0].action_space

    def reset(self) -> Any:
        """Begins an episode in each; returns the first observations."""
        self._on_use()
        return self._together([environment.reset()[0] for environment in self._environments])

    def step(self, actions: Any) -> tuple[Any, Array, Array, Infos]:
        """Steps each; returns observations, rewards, which episodes are over, and infos.

        Where an episode is over, the observation is the first of the next one. Its last one is in the info, as
        `terminal_observation`, with whether it was cut short, as `TimeLimit.truncated`.
        """
        self._on_use()
        observations, rewards, dones, infos = [], np.zeros(self.num_envs, np.float32), np.zeros(self.num_envs, bool), []
        for place, action in enumerate(iterate(batch_space(self.action_space, self.num_envs), actions)):
            environment = self._environments[place]
            observation, reward, terminated, truncated, info = environment.step(action)
            rewards[place], dones[place] = float(reward), terminated or truncated
            if dones[place]:
                ended = {"terminal_observation": observation, "TimeLimit.truncated": truncated and not terminated}
                info = {**info, **ended}
                observation, _ = environment.reset()
            observations.append(observation)
            infos.append(info)
        return self._together(observations), rewards, dones, infos

    def render(self) -> Any:
        """Renders the first of them."""
        return self._environments[0].render()

    def close(self) -> None:
        """Closes all of them."""
        for environment in self._environments:
            environment.close()

    def _together(self, observations: Sequence[Any]) -> Any:
        space, empty = self.observation_space, create_empty_array(self.observation_space, self.num_envs)
        assert empty is not None
        return concatenate(space, observations, empty)
