"""What a user may have made instead of a Gymnasium environment, and how to train on it."""

import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from mrq.errors import MRQError

OLD_GYM = "gym"  # the package before Gymnasium


def foreign(made: Any, giver: str) -> MRQError:
    """Returns the error for something that `giver` returned, and that is neither a gymnasium.Env nor a VectorEnv."""
    kind = type(made).__name__
    if advice := advice_on(made):
        return MRQError(f"{giver} returned {kind}, {advice}")
    return MRQError(f"{giver} returned {kind}; it must return a gymnasium.Env or VectorEnv.")


def advice_on(made: Any) -> str:
    """Says what an environment of another package is and how to train on it; "" for anything else."""
    packages = {base.__module__.partition(".")[0] for base in type(made).__mro__ if base.__name__.endswith("Env")}
    if OLD_GYM in packages:
        shim, extra = _shim()
        return (
            f"an environment of the old package gym: pip install 'shimmy[{extra}]', and give "
            f"shimmy.{shim}(env=...) with this environment as its argument."
        )
    if "pettingzoo" in packages:
        return (
            "an environment of PettingZoo, which has several agents, but mrq trains a single one: make a gymnasium.Env "
            "in which the other agents' moves are a part of each step."
        )
    return ""


def in_old_gym(module: str, name: str) -> str:
    """Says how to train on an id that a module registered in the old package gym, or returns ""."""
    registration = sys.modules.get("gym.envs.registration")
    registry = getattr(registration, "registry", {})
    if name not in getattr(registry, "env_specs", registry):  # a class of its own before gym 0.26
        return ""
    shim, extra = _shim()
    return (
        f"{name} is an environment of the old package gym: pip install 'shimmy[{extra}]', "
        f"then mrq train shimmy:{shim} --env-kwargs env_id={module}:{name}"
    )


def _shim() -> tuple[str, str]:
    """Returns what makes a Gymnasium environment from one of the installed gym's, and the extra that brings it."""
    try:
        number = version(OLD_GYM)
    except PackageNotFoundError:
        number = "0.26"
    old = tuple(map(int, number.split(".")[:2])) < (0, 26)
    return ("GymV21CompatibilityV0", "gym-v21") if old else ("GymV26CompatibilityV0", "gym-v26")
