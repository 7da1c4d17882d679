"""The environments that agents are trained and evaluated in: in this process, or in others where that is faster."""

import os
from collections.abc import Sequence

from mrq.environments.guarded import Guarded
from mrq.environments.making import Environment, make_environment
from mrq.environments.probing import Probe
from mrq.environments.stepping import Environments
from mrq.environments.workers import AnyEnvironments, Workers, processes_worth, refuse_changed_spaces
from mrq.interface import Agent
from mrq.training.settings import Settings

EVALUATED_AT_ONCE = 10  # episodes of an agent that are played side by side


def make_environments(
    agents: Sequence[Agent], probes: dict[str, Probe], settings: Settings, copies: int = 1
) -> AnyEnvironments:
    """`copies` environments an agent, side by side; in processes of their own where that is faster."""
    agents = [agent for agent in agents for _ in range(copies)]
    names, seconds = [agent.name for agent in agents], [probes[agent.task].seconds for agent in agents]
    processes = settings.workers
    if processes is None:
        processes = processes_worth(seconds, len(os.sched_getaffinity(0)))
    specs = [probes[agent.task].spec for agent in agents]
    if processes == 0:
        environments = Environments([Guarded(make_environment(agent.task)) for agent in agents], names)
        for name, spec, made in zip(names, specs, environments.specs, strict=True):
            refuse_changed_spaces(name, spec, made)
        return environments
    tasks = [agent.task for agent in agents]
    return Workers(tasks, names, specs, seconds, processes, settings.environment_timeout)


def guarded(environments: Sequence[Environment], agent: Agent) -> Environments:
    """One agent's environments, in this process."""
    return Environments([Guarded(environment) for environment in environments], [agent.name] * len(environments))


def evaluation_environments(
    agents: Sequence[Agent], probes: dict[str, Probe], settings: Settings
) -> AnyEnvironments | None:
    """None where nothing is to be evaluated."""
    if not settings.evaluation_period:
        return None
    return make_environments(agents, probes, settings, min(settings.evaluation_episodes, EVALUATED_AT_ONCE))
