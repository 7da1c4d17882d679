"""The one place where a population's parts are built."""

from collections.abc import Sequence
from typing import Any

import torch

from mrq.algorithms.algorithm import Setup
from mrq.algorithms.registry import algorithm_of
from mrq.environments.environments import Environments
from mrq.errors import MRQError
from mrq.execution import Exchange
from mrq.interface import Identity
from mrq.replay.allocation import slots_needed
from mrq.replay.buffer import Replay
from mrq.training.acting import Acting
from mrq.training.population import Population


def build_population(
    identities: Sequence[Identity],
    environments: Environments,
    hyperparameters: Any,  # an algorithm's; they say which one trains
    device: torch.device,
    dtype: torch.dtype = torch.float32,  # in which matrices are multiplied
    overlap: bool = False,
) -> Population:
    """Builds the agents as they are at the very start. `Population.expect` makes room for their training."""
    algorithm, h, spec = algorithm_of(hyperparameters), hyperparameters, environments.spec
    algorithm.refuse(environments.specs, [identity.task for identity in identities])
    if len(identities) > 1 and not algorithm.in_populations:
        raise MRQError(f"{algorithm.title} trains one agent at a time; give one task and one seed.")
    replay = Replay(environments.specs, h.replay, slots_needed(0, h.replay), device)
    agents = len(identities)
    exchange = Exchange(
        device,
        observations=(agents, spec.history, *spec.frame_shape),
        observation_dtype=replay.frames.dtype,
        actions=(agents, spec.action_size),
    )
    learner = algorithm.learner(
        Setup(identities, environments.specs, h, replay, exchange, device, dtype, overlap),
    )
    acting = Acting(learner, exchange)
    return Population(identities, h, environments, replay, learner, acting, device, overlap)
