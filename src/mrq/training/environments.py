"""The environments that agents are trained and evaluated in: in this process, or in others where that is faster."""

import os
from collections.abc import Sequence

from mrq.environments.checked import CheckedEnvironment
from mrq.environments.environments import Environments
from mrq.environments.local import LocalEnvironments
from mrq.environments.making import Environment
from mrq.environments.options import EnvironmentOptions
from mrq.environments.probing import Probe, says_which_actions_are_allowed
from mrq.environments.workers import WorkerEnvironments, processes_worth, refuse_changed_spaces
from mrq.interface import Identity
from mrq.training.settings import Settings

EVALUATED_AT_ONCE = 10  # episodes of an agent that are played side by side


def make_environments(
    identities: Sequence[Identity],
    probes: dict[str, Probe],
    settings: Settings,
    copies: int = 1,
    in_evaluations: bool = False,
) -> Environments:
    """Makes `copies` environments per agent, side by side; in processes of their own where that is faster."""
    identities = [identity for identity in identities for _ in range(copies)]
    tried, names = [probes[identity.task] for identity in identities], [identity.name for identity in identities]
    specs, seconds = [probe.spec for probe in tried], [probe.seconds for probe in tried]
    recipes = [probe.recipe._replace(in_evaluations=in_evaluations) for probe in tried]
    processes = settings.workers
    if processes is None:
        processes = processes_worth(seconds, len(os.sched_getaffinity(0)))
    if processes == 0:
        pairs = zip(recipes, specs, strict=True)
        made = [CheckedEnvironment(recipe.make(), recipe.options, spec.masked) for recipe, spec in pairs]
        environments = LocalEnvironments(made, names)
        for name, spec, found in zip(names, specs, environments.specs, strict=True):
            refuse_changed_spaces(name, spec, found)
        return environments
    return WorkerEnvironments(recipes, names, specs, seconds, processes, settings.environment_timeout)


def environments_of(
    identity: Identity, environments: Sequence[Environment], options: EnvironmentOptions
) -> LocalEnvironments:
    """Wraps one agent's environments, in this process."""
    masked = says_which_actions_are_allowed(CheckedEnvironment(environments[0], options), identity.task)
    checked = [CheckedEnvironment(environment, options, masked) for environment in environments]
    return LocalEnvironments(checked, [identity.name] * len(checked))


def evaluation_environments(
    identities: Sequence[Identity], probes: dict[str, Probe], settings: Settings
) -> Environments | None:
    """Makes the environments of evaluations, or none where nothing is to be evaluated."""
    if not settings.evaluation_period:
        return None
    copies = min(settings.evaluation_episodes, EVALUATED_AT_ONCE)
    return make_environments(identities, probes, settings, copies, in_evaluations=True)
