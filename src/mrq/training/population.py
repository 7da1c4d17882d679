"""P agents in training: their environments, replay, learner and counters, one environment step or update at a time.

Every agent takes a step whenever one does. Agent i does what its seed does alone.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from mrq.algorithm.learner import ENCODER_LOSSES, METRICS, Learner
from mrq.algorithm.noise import acting_noise, encoder_noise, value_noise
from mrq.environments.workers import Environments
from mrq.errors import MRQError
from mrq.hyperparameters import Hyperparameters
from mrq.interface import Array
from mrq.randomness import Stream, environment_seed, generator
from mrq.replay.buffer import Replay, slots_needed
from mrq.training.noise_blocks import NoiseBlocks

COUNTERS = ("steps", "encoder_updates", "updates", "evaluated_at")


class LossFault(MRQError):
    """A loss is no longer a number; the last checkpoint is still sound."""


class Population:
    def __init__(
        self,
        seeds: Sequence[int],
        environments: Environments,
        hyperparameters: Hyperparameters,
        device: torch.device,
    ) -> None:
        spec, h, period = environments.spec, hyperparameters, hyperparameters.target_period
        self.seeds, self.environments, self.hyperparameters, self.device = seeds, environments, h, device
        generators = [generator(seed, Stream.PARAMETERS) for seed in seeds]
        self.learner = Learner(spec, h, generators, device)
        self.replay = Replay(len(seeds), spec, h, slots_needed(0, h), device)

        def blocks(stream: Stream, draw: Callable[[np.random.Generator], dict[str, Array]]) -> NoiseBlocks:
            return NoiseBlocks(seeds, stream, period, draw, device)

        self._acting = blocks(Stream.ACTING, lambda g: acting_noise(g, period, spec))
        self._encoder = blocks(Stream.ENCODER_UPDATES, lambda g: encoder_noise(g, period, spec, h))
        self._value = blocks(Stream.VALUE_UPDATES, lambda g: value_noise(g, period, spec, h))

        self._everyone = np.ones(len(seeds), bool)
        self.steps = 0  # environment steps taken, by each agent
        self.encoder_updates = 0
        self.updates = 0  # of value and policy
        self.evaluated_at = -1  # the step of the last evaluation
        self.episodes = np.zeros(len(seeds), int)  # begun
        self.over = np.ones(len(seeds), bool)  # the next step begins an episode
        self.episode_returns = np.zeros(len(seeds))

    def make_room(self, total_steps: int) -> None:
        """Lets the replay hold what training up to `total_steps` will bring."""
        slots = slots_needed(total_steps, self.hyperparameters)
        if slots > self.replay.slots:
            self.replay = self.replay.grown(slots)

    def step(self) -> dict[int, float]:
        """One environment step of every agent; the returns of the episodes it ended, by agent."""
        if self.over.any():
            self._begin_episodes()
        noise = self._acting.at(self.steps, 1)
        if self.steps < self.hyperparameters.random_steps:
            actions = noise["random_actions"]
        else:
            actions = self.learner.explore(self.replay.latest_states(), noise)
        step = self.environments.step(self._everyone, actions[:, 0].cpu().numpy(), self.steps)
        self.replay.append(step)
        self.steps += 1
        self.episode_returns += step.rewards
        self.over = step.terminated | step.truncated
        return {int(agent): float(self.episode_returns[agent]) for agent in np.flatnonzero(self.over)}

    def update(self, interrupted: Callable[[], bool]) -> None:
        """The updates that the steps taken call for: one a step since training began.

        Where a target period begins, the targets are synchronised and the period's encoder updates done in a row. That
        takes a while on a small machine, so it breaks off between two chunks if `interrupted`; called again, here or
        in a resumed run, it goes on from there.
        """
        h = self.hyperparameters
        while self.updates < self.steps - h.random_steps:
            period_end = (self.updates // h.target_period + 1) * h.target_period
            while self.encoder_updates < period_end:
                if interrupted():
                    return
                self._update_encoder(period_end - self.encoder_updates)
            noise = {name: tensor[:, 0] for name, tensor in self._value.at(self.updates, 1).items()}
            windows = self.replay.sample(noise.pop("sample"), (0, h.value_horizon))
            td_errors = self.learner.update_value_and_policy(windows, noise)
            self.replay.priorities.update(windows.slots, td_errors)
            self.updates += 1
            self._check_losses()

    def _update_encoder(self, most: int) -> None:
        h = self.hyperparameters
        if self.encoder_updates % h.target_period == 0:
            if not self.replay.can_sample():
                raise MRQError(
                    f"there is nothing to learn from after {self.steps:,} steps: every episode was truncated "
                    f"before its {h.longest_horizon}th step; give the environment a longer time limit."
                )
            self.learner.sync_targets(self.replay.mean_absolute_reward())
        count = min(self.learner.chunk, most)
        noise = {name: tensor.flatten(1, 2) for name, tensor in self._encoder.at(self.encoder_updates, count).items()}
        windows = self.replay.sample(noise.pop("sample"), range(h.encoder_horizon + 1))
        self.learner.update_encoder(windows, noise, self.replay.terminated_before)
        self.encoder_updates += count
        self._check_losses()

    def metrics(self, agent: int) -> dict[str, float]:
        learner = self.learner
        values = dict(zip(METRICS, learner.metrics[agent].tolist(), strict=True))
        return values | {"reward_scale": float(learner.reward_scale[agent])}

    def state_of(self, agent: int) -> tuple[dict[str, torch.Tensor], dict[str, Array], dict[str, Any]]:
        """One agent's tensors, replay arrays and counters: all it needs to go on, alone or beside others."""
        tensors = self.learner.state_of(agent)
        if not all(tensor.isfinite().all() for tensor in tensors.values()):
            raise LossFault(
                f"{self.environments.names[agent]}: the networks hold NaN at step {self.steps:,}, so nothing was saved."
            )
        arrays, replay_counters = self.replay.state_of(agent)
        counters: dict[str, Any] = {name: getattr(self, name) for name in COUNTERS}
        counters |= {
            "episodes": int(self.episodes[agent]),
            "over": bool(self.over[agent]),
            "episode_return": float(self.episode_returns[agent]),
            "replay": replay_counters,
        }
        return tensors, arrays, counters

    def load_state_of(
        self, agent: int, tensors: dict[str, torch.Tensor], arrays: dict[str, Array], counters: dict[str, Any]
    ) -> str | None:
        """Takes up what `state_of` gave; a sentence where the environment could not be brought back to its place."""
        self.make_room(counters["steps"])
        self.learner.load_state_of(agent, tensors)
        self.replay.load_state_of(agent, arrays, counters["replay"])
        for name in COUNTERS:
            setattr(self, name, counters[name])
        self.episodes[agent] = counters["episodes"]
        self.over[agent] = counters["over"]
        self.episode_returns[agent] = counters["episode_return"]
        if self.over[agent]:
            return None
        seed = environment_seed(self.seeds[agent], int(self.episodes[agent]) - 1)
        actions = self.replay.episode_actions(agent)
        frame = None if actions is None else self.environments.replay_episode(agent, seed, actions)
        if frame is not None and np.array_equal(frame, self.replay.present_frame(agent)):
            return None
        self.over[agent] = True  # as if it had been truncated here
        return (
            f"{self.environments.names[agent]}: playing the episode again did not lead to the same observation; "
            "a new episode begins."
        )

    def _begin_episodes(self) -> None:
        seeds = [environment_seed(seed, int(episode)) for seed, episode in zip(self.seeds, self.episodes, strict=True)]
        frames = self.environments.reset(self.over, seeds, self.steps)
        self.replay.begin(self.over, frames)
        self.episodes[self.over] += 1
        self.episode_returns[self.over] = 0
        self.over[:] = False

    def _check_losses(self) -> None:
        finite = torch.isfinite(self.learner.metrics)
        if not finite.all():
            agent, metric = torch.nonzero(~finite)[0].tolist()
            kind = "encoder" if METRICS[metric] in ENCODER_LOSSES else "RL"
            raise LossFault(
                f"{self.environments.names[agent]}: the {METRICS[metric].replace('_', ' ')} became "
                f"{float(self.learner.metrics[agent, metric])} at step {self.steps:,} ({kind} update); "
                "nothing was saved after that. Look for extreme rewards or observations, or hyperparameters far from "
                "the paper's."
            )
