"""The one place where the parts of agents are built: of a population that trains, and of a learner that only acts."""

from collections.abc import Sequence
from typing import Any

import torch

from mrq.algorithms.algorithm import Algorithm, Learner, Setup
from mrq.algorithms.registry import algorithm_of
from mrq.environments.environments import Environments
from mrq.errors import MRQError
from mrq.execution import Exchange
from mrq.interface import Identity, Spec, common_spec
from mrq.replay.allocation import reserve, slots_needed
from mrq.replay.buffer import Replay
from mrq.training.acting import Acting
from mrq.training.population import Population


def build_population(
    identities: Sequence[Identity],
    environments: Environments,  # the same number for each agent, an agent's side by side
    hyperparameters: Any,  # an algorithm's; they say which one trains
    device: torch.device,
    dtype: torch.dtype = torch.float32,  # in which matrices are multiplied
    overlap: bool = False,
) -> Population:
    """Builds the agents as they are at the very start. `Population.expect` makes room for their training."""
    copies = len(environments.names) // len(identities)
    specs = environments.specs[::copies]
    algorithm, h = algorithm_of(hyperparameters), hyperparameters
    algorithm.refuse(specs, [identity.task for identity in identities])
    if copies > 1 or environments.begin_by_themselves:
        _refuse_several(copies, algorithm, h)
    setup, replay = _setup(identities, specs, h, device, dtype, overlap, copies)
    learner = algorithm.learner(setup)
    acting = Acting(learner, setup.exchange)
    return Population(identities, h, environments, replay, learner, acting, device, overlap)


def build_learner(
    identities: Sequence[Identity],
    specs: Sequence[Spec],  # one per agent
    hyperparameters: Any,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
) -> Learner:
    """Builds agents that only act: without environments, and with no more of a replay than a learner needs to exist."""
    algorithm = algorithm_of(hyperparameters)
    algorithm.refuse(specs, [identity.task for identity in identities])
    setup, _ = _setup(identities, specs, hyperparameters, device, dtype)
    return algorithm.learner(setup)


def _setup(
    identities: Sequence[Identity],
    specs: Sequence[Spec],
    hyperparameters: Any,
    device: torch.device,
    dtype: torch.dtype,
    overlap: bool = False,
    copies: int = 1,
) -> tuple[Setup, Replay]:
    algorithm, h, spec, agents = algorithm_of(hyperparameters), hyperparameters, common_spec(specs), len(identities)
    if agents > 1 and not algorithm.in_populations:
        raise MRQError(f"{algorithm.title} trains one agent at a time; give one task and one seed.")
    slots = slots_needed(0, h.replay, copies)
    reserve(agents, spec, slots, device)
    replay = Replay(specs, h.replay, slots, device, copies)
    exchange = Exchange(
        device,
        observations=(agents, copies, spec.history, *spec.frame_shape),
        observation_dtype=replay.frames.dtype,
        actions=(agents, copies, spec.action_size),
    )
    return Setup(identities, specs, h, replay, exchange, device, dtype, overlap, copies), replay


def _refuse_several(copies: int, algorithm: Algorithm, hyperparameters: Any) -> None:
    """Refuses several environments per agent where the algorithm takes one, or would have nothing to learn from."""
    if not algorithm.in_populations:
        raise MRQError(f"{algorithm.title} takes one environment per agent, and no VectorEnv; give a single one.")
    random_steps, horizon = hyperparameters.random_steps, hyperparameters.replay.horizon
    if random_steps < copies * horizon:
        raise MRQError(
            f"random_steps is {random_steps:,}; with {copies:,} environments per agent it must be at least "
            f"{copies * horizon:,}, so that each of them has taken the {horizon} steps of one window."
        )
