"""What to do about a task that cannot be made: no environment has its name, or a package is missing."""

import re
from collections.abc import Callable, Sequence

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from mrq.environments.foreign import in_old_gym
from mrq.environments.packages import meant_in_packages, same_name_in_packages
from mrq.environments.suggestions import did_you_mean, same_name, similar_name
from mrq.environments.tasks import PROTOCOLS, names_in, paper_tasks
from mrq.errors import one_line

EXTRAS = {"mujoco": "mujoco", "dm_control": "dmc", "ale_py": "atari"}  # by module, the extra that installs it


def unknown(task: str, in_suite: Sequence[str]) -> str:
    """Says what may have been meant by a name that no environment has; `in_suite` are the tasks of its suite."""
    suite = task.partition("/")[0]
    listing = f"mrq tasks {suite} lists the paper's tasks of that suite."
    if task.removesuffix("/") in PROTOCOLS:
        return listing
    if in_suite:
        return did_you_mean(task, in_suite) or listing
    prefix = "gym/" if suite == "gym" else ""
    in_paper = [known.name if prefix else known.name.removeprefix("gym/") for known in paper_tasks()]
    others = [spec for spec in gym.registry.values() if not _unsupported(spec)]
    others.sort(key=lambda spec: (spec.namespace is not None, -(spec.version or 0)))
    known, name = (in_paper, [prefix + spec.id for spec in others]), task.removeprefix("gym/")
    places: list[Callable[[], str]] = [lambda: same_name(task, *known), lambda: meant_in_packages(name)]
    if "/" in name:  # a namespace, which packages have
        places.reverse()
    return (
        next(filter(None, (look() for look in places)), "")
        or similar_name(task, *known)
        or "use a Gymnasium id such as Pendulum-v1, dmc/cheetah-run, atari/Pong, or module:factory for your own."
    )


def not_in_module(module: str, name: str) -> str:
    """Says that a module has no environment of this name, and what to use instead."""
    if old := in_old_gym(module, name):
        return old
    top = module.partition(".")[0]
    registered = [f"{module}:{spec.id}" for spec in gym.registry.values() if _origin(spec) == top]
    question = did_you_mean(f"{module}:{name}", registered) or same_name_in_packages(name)
    sentence = f"the module {module!r} has no {name!r} and registers no environment with that name"
    return f"{sentence}; {question}" if question else f"{sentence}."


def missing_package(task: str, error: Exception) -> str:
    """Says which package a task needs, or which other version of the task needs none."""
    text = one_line(error)
    if "mujoco_py" in text or "mujoco-py" in text or "mujoco v2 and v3" in text:
        return f"{task} needs mujoco_py, which is no longer maintained{_instead(task)}."
    if "mujoco<3" in text:
        return f"{task} works only with MuJoCo before version 3{_instead(task)}."
    for module, extra in EXTRAS.items():
        if module in text.lower():
            return f"{task} needs a package that is not installed; run: pip install 'mrq-rl[{extra}]'"
    return f"{task} needs a package that is not installed: {text}."


def _instead(task: str) -> str:
    """Names the version of a task to use: the paper's if there is one, else the latest."""
    module, _, name = task.removeprefix("gym/").rpartition(":")
    stem = re.sub(r"\d+$", "", name)
    in_paper = names_in("gym")
    versions = [
        (f"gym/{spec.id}" in in_paper, spec.version or 0, spec.id)
        for spec in gym.registry.values()
        if spec.id.startswith(stem) and spec.id != name and not _unsupported(spec)
    ]
    return f"; use {module and module + ':'}{max(versions)[2]}" if versions else ""


def _unsupported(spec: EnvSpec) -> bool:
    """Says whether an id needs mujoco_py, or MuJoCo before version 3."""
    return "mujoco" in str(spec.entry_point) and ((spec.version or 0) < 4 or spec.id == "Pusher-v4")


def _origin(spec: EnvSpec) -> str:
    """Returns the package that an id's environment is in."""
    place = spec.entry_point
    return (place if isinstance(place, str) else getattr(place, "__module__", "")).partition(".")[0].partition(":")[0]
