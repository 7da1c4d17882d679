"""Evaluation as the paper does it: whole episodes without exploration noise, in environments of their own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from mrq.algorithm.learner import Learner
from mrq.algorithm.noise import gumbel
from mrq.environments.making import Environment
from mrq.environments.workers import Environments
from mrq.interface import Array
from mrq.randomness import Stream, generator

LONGEST_EPISODE = 30_000  # steps, for environments that never end one; the longest of the paper's take 27,000


@dataclass(frozen=True)
class Evaluation:
    returns: list[float]
    lengths: list[int]

    @property
    def mean(self) -> float:
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        return float(np.std(self.returns))

    @property
    def mean_length(self) -> float:
        return float(np.mean(self.lengths))


def evaluate(
    learner: Learner,
    environments: Environments,
    seeds: Sequence[int],
    step: int,
    episodes: int,
    deterministic: bool = False,
    watch: Callable[[Environment], None] | None = None,  # called at every step of the first agent's environment
    interrupted: Callable[[], bool] = lambda: False,
) -> list[Evaluation] | None:
    """Every agent plays `episodes` episodes, all agents side by side; None if it was interrupted.

    `step` chooses the episodes: the same step plays the same ones again. Discrete actions keep their Gumbel noise, as
    in the published evaluations, unless `deterministic`.
    """
    agents = len(seeds)
    generators = [generator(seed, Stream.EVALUATION, step) for seed in seeds]
    episode_seeds = [g.integers(2**31, size=episodes).tolist() for g in generators]
    results = [Evaluation([], []) for _ in seeds]
    history = np.zeros((agents, environments.spec.history, *environments.spec.frame_shape), environments.dtype)
    returns, lengths, over, playing = (
        np.zeros(agents),
        np.zeros(agents, int),
        np.ones(agents, bool),
        np.ones(agents, bool),
    )
    while playing.any():
        if interrupted():
            return None
        if over.any():
            next_seeds = [
                own[len(result.returns) % episodes] for own, result in zip(episode_seeds, results, strict=True)
            ]
            history[over] = environments.reset(over, next_seeds, step)[over][:, None]
            returns[over], lengths[over], over = 0, 0, np.zeros(agents, bool)
        if watch is not None:
            watch(environments.environments[0].environment)
        actions = choose_actions(learner, history[:, None], generators, deterministic)[:, 0]
        played = environments.step(playing, actions, step)
        history = np.concatenate([history[:, 1:], played.next_frames[:, None]], 1)
        returns += played.rewards
        lengths += playing
        ended = played.terminated | played.truncated | (lengths >= LONGEST_EPISODE)
        for agent in np.flatnonzero(playing & ended):
            results[agent].returns.append(float(returns[agent]))
            results[agent].lengths.append(int(lengths[agent]))
            playing[agent] = len(results[agent].returns) < episodes
            over[agent] = playing[agent]
    return results


def choose_actions(
    learner: Learner, histories: Array, generators: Sequence[np.random.Generator], deterministic: bool
) -> Array:
    """Evaluation actions (agents, count, action_size) for histories (agents, count, history, *frame_shape)."""
    spec, (agents, count) = learner.spec, histories.shape[:2]
    states = torch.from_numpy(histories.reshape(agents, count, *spec.state_shape)).to(learner.device)
    noise = {}
    if spec.discrete and not deterministic:
        drawn = np.stack([gumbel(g, (count, spec.action_size)) for g in generators])
        noise["evaluation_gumbel"] = torch.from_numpy(drawn).to(learner.device)
    return learner.exploit(states, noise).cpu().numpy()
