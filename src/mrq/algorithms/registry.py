"""The algorithms by name. A new one is a package and a line here; each is imported when it is asked for."""

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from importlib import import_module
from typing import Any

from mrq.algorithms.algorithm import DEFAULT_PRESET, Algorithm
from mrq.errors import MRQError

DEFAULT = "mrq"
ALGORITHMS = {
    "mrq": "mrq.algorithms.mrq:MRQ",
    "drqv2": "mrq.algorithms.drqv2:DRQV2",
    "ppo": "mrq.baselines.stable_baselines:PPO",
    "td3": "mrq.baselines.stable_baselines:TD3",
    "sac": "mrq.baselines.stable_baselines:SAC",
    "dqn": "mrq.baselines.stable_baselines:DQN",
}


@cache
def _imported(place: str) -> Algorithm:
    module, _, name = place.partition(":")
    algorithm: Algorithm = getattr(import_module(module), name)
    return algorithm


def algorithm_named(name: str) -> Algorithm:
    """Returns the algorithm that the command line calls by this name."""
    if name.lower() not in ALGORITHMS:
        raise MRQError(f"there is no algorithm {name!r}; there are {', '.join(ALGORITHMS)}.")
    return _imported(ALGORITHMS[name.lower()])


def algorithm_titled(title: str) -> Algorithm:
    """Returns the algorithm that run folders and reports call by this title."""
    for name in ALGORITHMS:
        if (algorithm := algorithm_named(name)).title == title:
            return algorithm
    raise MRQError(f"there is no algorithm titled {title!r} in this version of mrq.")


def algorithm_of(hyperparameters: object) -> Algorithm:
    """Returns the algorithm that these hyperparameters belong to."""
    for name in ALGORITHMS:
        if (algorithm := algorithm_named(name)).hyperparameters is type(hyperparameters):
            return algorithm
    raise MRQError(
        f"hyperparameters must be an object of an algorithm's own, such as mrq.Hyperparameters(), "
        f"not {type(hyperparameters).__name__}."
    )


def hyperparameters_from(algorithm: str | None, preset: str | None, hyperparameters: Any) -> Any:
    """Returns an algorithm's hyperparameters: all that are given, or those of a preset with the changes given."""
    if hyperparameters is None or isinstance(hyperparameters, Mapping):
        base = algorithm_named(algorithm or DEFAULT).preset(preset or DEFAULT_PRESET)
        changes = dict(hyperparameters or {})
        if unknown := sorted(map(str, changes.keys() - {field.name for field in fields(base)})):
            raise MRQError(f"{algorithm_of(base).title} has no hyperparameter {', '.join(unknown)}.")
        return replace(base, **changes)
    theirs = algorithm_of(hyperparameters)
    if preset is not None:
        raise MRQError("give either preset or an object of hyperparameters; a mapping changes some of the preset.")
    if algorithm is not None and algorithm_named(algorithm) is not theirs:
        raise MRQError(f"the hyperparameters are those of {theirs.title}, not of {algorithm_named(algorithm).title}.")
    return hyperparameters


def default_algorithm() -> Algorithm:
    """Returns the algorithm that is used if nothing else is asked for."""
    return algorithm_named(DEFAULT)
