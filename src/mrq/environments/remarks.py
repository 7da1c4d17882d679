"""What a user may not expect of an environment: one line each, before training begins."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from gymnasium.vector import VectorEnv

from mrq.environments.atari import paper_name
from mrq.environments.making import Environment, Made, layers

# What environments that truncate their episodes themselves call the limit.
LIMITS = (
    *("max_episode_steps", "max_steps", "max_episode_length", "max_num_frames_per_episode", "episode_length"),
    *("episode_steps", "time_limit", "horizon", "duration"),
)


def remarks_on(made: Made) -> list[str]:
    """Returns what is to be said about an environment; a VectorEnv does not show what it is made of."""
    if isinstance(made, VectorEnv):
        return []
    environment, remarks = made, list[str]()
    if game := paper_name(environment):
        remarks.append(f"this is the raw game; the paper's protocol is {game}")
    if not _has_limit(environment):
        remarks.append(
            "it names no limit of steps per episode; if an episode may not end by itself, give --max-episode-steps"
        )
    return remarks


def _has_limit(environment: Environment) -> bool:
    if any(type(layer).__name__.endswith("TimeLimit") for layer in layers(environment)):
        return True
    own = environment.unwrapped
    values = [_attribute(own, mark + name) for name in LIMITS for mark in ("", "_")]
    for settings in (_attribute(own, "config"), _attribute(own.spec, "kwargs")):
        if isinstance(settings, Mapping):
            values += [settings.get(name) for name in LIMITS]
    return any(isinstance(value, int | float) and value > 0 for value in values)


def _attribute(owner: Any, name: str) -> Any:
    with suppress(Exception):  # of a property
        return getattr(owner, name)
    return None
