"""Evaluation as the paper does it: whole episodes without exploration noise, in environments of their own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from mrq.algorithms.algorithm import Carried, Learner
from mrq.environments.environments import Environments
from mrq.environments.history import empty_history
from mrq.environments.tasks import protocol_of
from mrq.interface import Array, Identity
from mrq.randomness import Stream, generator

LONGEST_EPISODE = 30_000  # steps, for environments that never end one; the longest of the paper's take 27,000


@dataclass(frozen=True)
class Evaluation:
    """The episodes that one agent played."""

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
    learner: Learner,
    environments: Environments,  # the same number for each agent, an agent's side by side
    identities: Sequence[Identity],
    step: int,
    episodes: int,
    deterministic: bool = False,
    active: Array | None = None,  # (agents,), those to evaluate; all of them by default
    before_step: Callable[[], None] = lambda: None,
    interrupted: Callable[[], bool] = lambda: False,
) -> tuple[list[Evaluation], dict[int, str]] | None:
    """Lets every agent play `episodes` episodes, all environments side by side; returns None if it was interrupted.

    `step` chooses the episodes: the same step plays the same ones again. What is random in the algorithm's evaluation
    stays random, and in Atari one action in a thousand is, as in the published evaluations, unless `deterministic`.
    An agent whose environment fails has no episodes; the sentences of those are returned too, by agent.
    """
    count = len(environments.names)
    copies = count // len(identities)
    plans = [list(range(place % copies, episodes, copies)) for place in range(count)]  # the episodes each one plays
    results: list[dict[int, tuple[float, int]]] = [{} for _ in identities]  # return and length of each episode
    generators = [np.random.default_rng(0)] * count  # of the current episode
    history = empty_history(count, environments.spec)
    carried = learner.carries(copies)
    returns, lengths, failed = np.zeros(count), np.zeros(count, int), dict[int, str]()
    chances = np.repeat([0.0 if deterministic else protocol_of(each.task).random_action for each in identities], copies)
    evaluated = np.ones(count, bool) if active is None else np.repeat(active, copies)
    playing = evaluated & [bool(plan) for plan in plans]
    beginning, waiting = evaluated, np.zeros(count, bool)  # those that wait begin an episode with their next step
    while playing.any():
        if interrupted():
            return None
        episode_seeds = [0] * count
        for place in np.flatnonzero((beginning | waiting) & playing).tolist():
            seed = identities[place // copies].seed
            generators[place] = generator(seed, Stream.EVALUATION, step, plans[place][0])
            episode_seeds[place] = int(generators[place].integers(2**31))
        if beginning.any():
            frames, faults = environments.reset(beginning, episode_seeds, step)
            history.begin(beginning, frames)
            _begin(carried, beginning, len(identities))
            returns[beginning], lengths[beginning] = 0, 0
            playing[list(faults.failed)] = False
            failed |= faults.failed
            beginning = _lost(faults.restarted, playing)
            if beginning.any() or not playing.any():
                continue
        before_step()
        grouped = history.frames.reshape(len(identities), copies, *history.frames.shape[1:])
        chosen = None if deterministic else generators
        actions = choose_actions(learner, grouped, chosen, carried).reshape(count, -1)
        for place in np.flatnonzero(playing & (chances > 0)).tolist():
            if generators[place].random() < chances[place]:
                choice = generators[place].integers(environments.specs[place].action_size)
                actions[place] = np.arange(actions.shape[1]) == choice
        played, faults = environments.step(playing, actions, step)
        history.append(played.next_frames)
        if waiting.any():
            history.begin(waiting, played.next_frames)
            _begin(carried, waiting, len(identities))
        returns, lengths = np.where(waiting, 0, returns + played.rewards), np.where(waiting, 0, lengths + playing)
        playing[list(faults.failed)] = False
        failed |= faults.failed
        beginning = _lost(faults.restarted, playing)
        over = playing & ~beginning & (played.terminated | played.truncated)
        ended = over | (playing & ~beginning & (lengths >= LONGEST_EPISODE))
        for place in np.flatnonzero(ended).tolist():
            results[place // copies][plans[place].pop(0)] = (float(returns[place]), int(lengths[place]))
            playing[place] = bool(plans[place])
        waiting = over & playing & environments.begin_by_themselves
        beginning |= ended & playing & ~waiting
    evaluations = []
    for result in results:
        played_episodes = [result[episode] for episode in range(episodes)] if len(result) == episodes else []
        evaluations.append(Evaluation([r for r, _ in played_episodes], [length for _, length in played_episodes]))
    return evaluations, {place // copies: sentence for place, sentence in failed.items()}


def choose_actions(
    learner: Learner, histories: Array, generators: Sequence[np.random.Generator] | None, carried: Carried
) -> Array:
    """Returns actions (agents, count, action_size) for histories (agents, count, history, *frame_shape).

    There is a generator for each history, agent after agent, or none: then actions are deterministic.
    """
    agents, count, history, channels, *rest = histories.shape
    states = torch.from_numpy(histories.reshape(agents, count, history * channels, *rest)).to(learner.device)
    return learner.act(states, generators, carried).cpu().numpy()


def _begin(carried: Carried, beginning: Array, agents: int) -> None:
    for tensor in carried.values():
        tensor[torch.from_numpy(beginning.reshape(agents, -1)).to(tensor.device)] = 0


def _lost(restarted: frozenset[int], playing: Array) -> Array:
    """Returns the places whose environment was made again, so that its episode must begin again."""
    lost = np.zeros(len(playing), bool)
    lost[list(restarted)] = True
    return lost & playing
