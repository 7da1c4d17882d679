"""Evaluation as the paper does it: whole episodes without exploration noise, in environments of their own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from mrq.algorithm.noise import Noise, gumbel
from mrq.environments.tasks import protocol_of
from mrq.environments.workers import AnyEnvironments
from mrq.interface import Agent, Array, Spec
from mrq.randomness import Stream, generator

LONGEST_EPISODE = 30_000  # steps, for environments that never end one; the longest of the paper's take 27,000


class Player(Protocol):
    """Who is evaluated: a learner, or what acts in its place."""

    @property
    def spec(self) -> Spec:
        """That holds all agents'."""

    @property
    def specs(self) -> Sequence[Spec]:
        """One an agent."""

    @property
    def device(self) -> torch.device: ...

    def exploit(self, states: torch.Tensor, noise: Noise) -> torch.Tensor:
        """Actions (agents, count, action_size) for states (agents, count, *state_shape)."""


@dataclass(frozen=True)
class Evaluation:
    returns: list[float]
    lengths: list[int]

    def __str__(self) -> str:
        return f"{self.mean:,.1f} ± {self.std:,.1f}"

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
    player: Player,
    environments: AnyEnvironments,  # the same number for each agent, an agent's side by side
    agents: Sequence[Agent],
    step: int,
    episodes: int,
    deterministic: bool = False,
    active: Array | None = None,  # (agents,), those to evaluate; all of them by default
    watch: Callable[[], None] | None = None,  # called before every step
    interrupted: Callable[[], bool] = lambda: False,
) -> list[Evaluation] | None:
    """Every agent plays `episodes` episodes, all environments side by side; None if it was interrupted.

    `step` chooses the episodes: the same step plays the same ones again. Discrete actions keep their Gumbel noise and,
    in Atari, one in a thousand is random, as in the published evaluations, unless `deterministic`. An agent whose
    environment fails has no episodes.
    """
    count = len(environments.names)
    copies = count // len(agents)
    plans = [list(range(place % copies, episodes, copies)) for place in range(count)]  # the episodes each one plays
    results: list[dict[int, tuple[float, int]]] = [{} for _ in agents]  # return and length of each episode
    generators = [np.random.default_rng(0)] * count  # of the episode under way
    spec = environments.spec
    history = np.zeros((count, spec.history, *spec.frame_shape), spec.frame_dtype)
    returns, lengths = np.zeros(count), np.zeros(count, int)
    chances = np.repeat([0.0 if deterministic else protocol_of(agent.task).random_action for agent in agents], copies)
    playing = np.array([bool(plan) for plan in plans])
    if active is not None:
        playing &= np.repeat(active, copies)
    over = playing.copy()
    while playing.any():
        if interrupted():
            return None
        if over.any():
            episode_seeds = [0] * count
            for place in np.flatnonzero(over).tolist():
                generators[place] = generator(agents[place // copies].seed, Stream.EVALUATION, step, plans[place][0])
                episode_seeds[place] = int(generators[place].integers(2**31))
            history[over] = environments.reset(over, episode_seeds, step)[over][:, None]
            returns[over], lengths[over] = 0, 0
            over = _to_begin_again(environments, playing)
            if over.any():
                continue
        if watch is not None:
            watch()
        grouped = history.reshape(len(agents), copies, *history.shape[1:])
        actions = choose_actions(player, grouped, generators, deterministic).reshape(count, -1)
        for place in np.flatnonzero(playing & (chances > 0)).tolist():
            if generators[place].random() < chances[place]:
                choice = generators[place].integers(environments.specs[place].action_size)
                actions[place] = np.arange(actions.shape[1]) == choice
        played = environments.step(playing, actions, step)
        history = np.concatenate([history[:, 1:], played.next_frames[:, None]], 1)
        returns += played.rewards
        lengths += playing
        over = _to_begin_again(environments, playing)
        ended = playing & ~over & (played.terminated | played.truncated | (lengths >= LONGEST_EPISODE))
        for place in np.flatnonzero(ended).tolist():
            results[place // copies][plans[place].pop(0)] = (float(returns[place]), int(lengths[place]))
            playing[place] = over[place] = bool(plans[place])
        playing[list(environments.failed)] = over[list(environments.failed)] = False
    evaluations = []
    for result in results:
        played_episodes = [result[episode] for episode in range(episodes)] if len(result) == episodes else []
        evaluations.append(Evaluation([r for r, _ in played_episodes], [length for _, length in played_episodes]))
    return evaluations


def _to_begin_again(environments: AnyEnvironments, playing: Array) -> Array:
    """The places whose environment lost its process by another's fault, and with it the episode under way."""
    over = np.zeros(len(playing), bool)
    over[list(environments.restarted)] = True
    environments.restarted.clear()
    return over & playing


def choose_actions(
    player: Player, histories: Array, generators: Sequence[np.random.Generator], deterministic: bool
) -> Array:
    """Evaluation actions (agents, count, action_size) for histories (agents, count, history, *frame_shape).

    A generator for each, agent after agent.
    """
    spec, (agents, count) = player.spec, histories.shape[:2]
    states = torch.from_numpy(histories.reshape(agents, count, *spec.state_shape)).to(player.device)
    noise = {}
    if spec.discrete and not deterministic:
        drawn = np.zeros((agents * count, spec.action_size), np.float32)
        for place, own in enumerate(generators):
            size = player.specs[place // count].action_size
            drawn[place, :size] = gumbel(own, (size,))
        noise["evaluation_gumbel"] = torch.from_numpy(drawn.reshape(agents, count, -1)).to(player.device)
    return player.exploit(states, noise).cpu().numpy()
