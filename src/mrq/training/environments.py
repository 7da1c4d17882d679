"""The environments that agents are trained and evaluated in: in this process, or in others where that is faster."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from gymnasium.vector import VectorEnv

from mrq.environments.checked import CheckedEnvironment
from mrq.environments.environments import Environments
from mrq.environments.local import LocalEnvironments
from mrq.environments.making import Made, single
from mrq.environments.options import EnvironmentOptions
from mrq.environments.probing import Probe, checked_as_it_is, probe
from mrq.environments.recipe import Recipe
from mrq.environments.sources import refuse_repeated
from mrq.environments.vector import CheckedVector, VectorEnvironments
from mrq.environments.workers import WorkerEnvironments, processes_worth, refuse_changed_spaces
from mrq.errors import MRQError
from mrq.interface import MASKS, SPACES, Identity
from mrq.processes import cores
from mrq.training.settings import Settings

EVALUATED_AT_ONCE = 10  # episodes of an agent that are played side by side
SIDE_BY_SIDE = "several environments are stepped side by side"


def try_tasks(tasks: Sequence[str], settings: Settings) -> dict[str, Probe]:
    """Tries the tasks out, also as evaluations make them where that is different; refuses other spaces there."""
    differ = bool(settings.environment.eval_env_kwargs) and settings.evaluation_period > 0
    recipes = {
        (task, in_evaluations): settings.recipe(task)._replace(in_evaluations=in_evaluations)
        for task in tasks
        for in_evaluations in ((False, True) if differ else (False,))
    }
    probes = probe(recipes, settings.environment_timeout)
    for task in tasks:
        trained, evaluated = probes[task, False], probes[task, differ]
        if evaluated.spec != trained.spec:
            pairs = [(evaluated.spaces[name], trained.spaces[name]) for name in (*SPACES, MASKS)]
            other = " and ".join(f"{theirs} instead of {ours}" for theirs, ours in pairs if theirs != ours)
            raise MRQError(
                f"--eval-env-kwargs give {task} other spaces than in training: {other}; give it the same ones."
            )
    return {task: probes[task, False] for task in tasks}


def with_vectors(settings: Settings, probes: dict[str, Probe]) -> Settings:
    """Returns settings with as many environments per agent as the tasks' VectorEnvs have, if they make some."""
    sizes = {probe.copies for probe in probes.values()}
    if sizes == {None}:
        return settings
    if len(sizes) > 1:
        raise MRQError("these tasks make different numbers of environments at once; train them in separate calls.")
    (size,) = sizes
    assert size is not None, "it is not the only one"
    if settings.envs not in (1, size):
        raise MRQError(f"--envs is {settings.envs:,}, but the VectorEnv has {size:,} environments; leave out --envs.")
    return replace(settings, envs=size)


def make_environments(
    identities: Sequence[Identity],
    probes: dict[str, Probe],
    settings: Settings,
    copies: int,
    in_evaluations: bool = False,
) -> Environments:
    """Makes `copies` environments per agent, side by side; in processes of their own where that is faster."""
    tried = [probes[identity.task] for identity in identities]
    recipes = [probe.recipe._replace(in_evaluations=in_evaluations) for probe in tried]
    if any(probe.copies for probe in tried):
        return _make_vectors([identity.name for identity in identities], tried, recipes, copies)
    names = [identity.name for identity in identities for _ in range(copies)]
    recipes = [recipe for recipe in recipes for _ in range(copies)]
    specs = [probe.spec for probe in tried for _ in range(copies)]
    seconds = [probe.seconds for probe in tried for _ in range(copies)]
    processes = settings.workers
    if processes is None:
        processes = processes_worth(seconds, cores())
    if processes == 0:
        pairs = zip(recipes, specs, strict=True)
        made = [CheckedEnvironment(recipe.make_one(), recipe.options, spec.masked) for recipe, spec in pairs]
        refuse_repeated([one.environment for one in made], SIDE_BY_SIDE)
        environments = LocalEnvironments(made, names)
        for name, spec, found in zip(names, specs, environments.specs, strict=True):
            refuse_changed_spaces(name, spec, found)
        return environments
    return WorkerEnvironments(recipes, names, specs, seconds, processes, settings.environment_timeout)


def _make_vectors(
    names: Sequence[str], probes: Sequence[Probe], recipes: Sequence[Recipe], copies: int
) -> VectorEnvironments:
    """Makes a VectorEnv per agent, in this process."""
    vectors = []
    for name, tried, recipe in zip(names, probes, recipes, strict=True):
        if tried.copies != copies:
            raise MRQError(
                f"{recipe.task} makes {tried.copies or 1:,} environments at once, and {name} trains in {copies:,}."
            )
        vector = checked_as_it_is(recipe.make(), recipe)
        if not isinstance(vector, CheckedVector):
            raise MRQError(f"{recipe.task} does not make a VectorEnv each time; let it always make one.")
        refuse_changed_spaces(name, tried.spec, vector.spec)
        vectors.append(vector)
    return VectorEnvironments(vectors, names)


def made_by(make: Callable[[], Made], count: int) -> list[Made]:
    """Makes so many environments, or one VectorEnv; fewer if a process can only have one, as of emulators."""
    made = [make()]
    with suppress(MRQError):
        while len(made) < count and not isinstance(made[0], VectorEnv):
            made.append(make())
    refuse_repeated(made, SIDE_BY_SIDE)
    return made


def environments_of(
    identity: Identity,
    first: CheckedEnvironment | CheckedVector,
    others: Sequence[Made],
    options: EnvironmentOptions,
) -> Environments:
    """Wraps one agent's environments, in this process."""
    if isinstance(first, CheckedVector):
        return VectorEnvironments([first], [identity.name])
    alike = [CheckedEnvironment(single(one, identity.task), options, first.spec.masked) for one in others]
    return LocalEnvironments([first, *alike], [identity.name] * (1 + len(alike)))


def evaluation_environments(
    identities: Sequence[Identity], probes: dict[str, Probe], settings: Settings
) -> Environments | None:
    """Makes the environments of evaluations, or none where nothing is to be evaluated."""
    if not settings.evaluation_period:
        return None
    at_once = probes[identities[0].task].copies or min(settings.evaluation_episodes, EVALUATED_AT_ONCE)
    return make_environments(identities, probes, settings, at_once, in_evaluations=True)
