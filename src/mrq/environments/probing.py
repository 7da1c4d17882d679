"""Tries tasks out before anything is trained or written: what they look like and how long their steps take."""

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from gymnasium import Space
from gymnasium.vector import VectorEnv

from mrq.environments.checked import CheckedEnvironment
from mrq.environments.checks import Misbehaviour
from mrq.environments.definitions import definition_of
from mrq.environments.making import MAKING_SECONDS, Made
from mrq.environments.recipe import Recipe
from mrq.environments.remarks import remarks_on
from mrq.environments.vector import CheckedVector
from mrq.errors import MRQError
from mrq.interface import DEFINITIONS, MASKED, MASKS, SPACES, Array, Spec
from mrq.processes import CLOSING_SECONDS, Child, Pipe, cores

TRIED_STEPS = 20
ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # where an object lies in memory, such as the function in a MiniGrid's space
Key = TypeVar("Key")


@dataclass(frozen=True)
class Probe:
    """The result of trying a task out."""

    recipe: Recipe  # of what was tried
    spec: Spec
    spaces: dict[str, Any]  # for run.json
    seconds: float  # per step; 0 for a VectorEnv, which no other process steps
    remarks: tuple[str, ...] = ()  # about it, for the user
    copies: int | None = None  # the environments that its recipe makes at once, as a VectorEnv


def probe(recipes: Mapping[Key, Recipe], timeout: float) -> dict[Key, Probe]:
    """Tries every recipe; refuses what does not work, or takes `timeout` seconds longer than making may."""
    tried = {}
    for recipe, result in trials(list(dict.fromkeys(recipes.values())), timeout):
        if isinstance(result, MRQError):
            raise result
        tried[recipe] = result
    return {key: tried[recipe] for key, recipe in recipes.items()}


def trials(recipes: Sequence[Recipe], timeout: float) -> Iterator[tuple[Recipe, Probe | MRQError]]:
    """Tries every recipe in a process of its own, as many at once as there are cores; yields what was found out."""
    at_once = cores()
    for start in range(0, len(recipes), at_once):
        children = {recipe: Child(_try, (recipe,)) for recipe in recipes[start : start + at_once]}
        try:
            for recipe, child in children.items():
                yield recipe, _result(child, recipe.task, timeout + MAKING_SECONDS)
        finally:
            deadline = time.monotonic() + CLOSING_SECONDS
            for child in children.values():
                child.end(max(0, deadline - time.monotonic()))  # it closes its environment


def _result(child: Child, task: str, timeout: float) -> Probe | MRQError:
    try:
        result: Probe | MRQError = child.receive(timeout)
    except TimeoutError:
        return MRQError(f"the environment of {task} did not answer for {timeout:,.0f} seconds.")
    except EOFError:
        why = child.how_it_ended(CLOSING_SECONDS) or "its process stopped unexpectedly"
        return MRQError(f"the environment of {task} does not work: {why}.")
    return result


def _try(pipe: Pipe, recipe: Recipe) -> None:
    """Runs in the child."""
    made: Made | None = None
    result: Probe | MRQError
    try:
        made = recipe.make()
        result = try_out(made, recipe)
    except MRQError as error:
        result = MRQError(str(error))
    with suppress(OSError):  # the parent has ended
        pipe.send(result)
    with suppress(Exception):
        if made is not None:
            made.close()
    os._exit(0)  # what else the environment does when Python exits does not concern the trial


def try_out(made: Made, recipe: Recipe) -> Probe:
    """Takes a few steps in an environment; refuses one that misbehaves."""
    checked = checked_as_it_is(made, recipe)
    if isinstance(checked, CheckedVector):
        return _try_out_vector(checked, recipe)
    return _try_out(checked, recipe)


def checked_as_it_is(made: Made, recipe: Recipe) -> CheckedEnvironment | CheckedVector:
    """Wraps an environment, or a VectorEnv, having found out whether it gives masks of its actions."""

    def checked(masked: bool) -> CheckedEnvironment | CheckedVector:
        if isinstance(made, VectorEnv):
            return CheckedVector(made, recipe.options, masked)
        return CheckedEnvironment(made, recipe.options, masked)

    try:
        found = checked(masked=False)
        known = checked(masked=found.gives_masks(0))
        known.translator.remarks = found.translator.remarks
        return known
    except Misbehaviour as misbehaviour:
        raise _does_not_work(recipe.task, misbehaviour) from misbehaviour


def _try_out(environment: CheckedEnvironment, recipe: Recipe) -> Probe:
    seconds = []
    try:
        environment.reset(0)
        for _ in range(TRIED_STEPS):
            action = _first_action(environment.spec, environment.mask)
            began = time.perf_counter()
            _, _, terminated, truncated = environment.step(action)
            seconds.append(time.perf_counter() - began)
            if terminated or truncated:
                environment.reset(0)
    except Misbehaviour as misbehaviour:
        raise _does_not_work(recipe.task, misbehaviour) from misbehaviour
    remarks = *environment.translator.remarks, *remarks_on(environment.environment)
    spaces = describe_spaces(environment.environment, environment.spec.masked)
    return Probe(recipe, environment.spec, spaces, float(np.median(seconds)), remarks)


def _try_out_vector(vector: CheckedVector, recipe: Recipe) -> Probe:
    try:
        vector.reset(0)
        for _ in range(TRIED_STEPS):
            vector.step(np.stack([_first_action(vector.spec, mask) for mask in vector.masks]))
    except Misbehaviour as misbehaviour:
        raise _does_not_work(recipe.task, misbehaviour) from misbehaviour
    remarks = tuple(vector.translator.remarks)
    spaces = describe_spaces(vector.vector, vector.spec.masked)
    return Probe(recipe, vector.spec, spaces, 0.0, remarks, vector.count)


def _first_action(spec: Spec, allowed: Array | None) -> Array:
    """Returns the middle of every number, and the first allowed option of every choice."""
    action, start = np.zeros(spec.action_size, np.float32), spec.continuous
    for options in spec.choices:
        mask = np.ones(options) if allowed is None else allowed[start - spec.continuous :][:options]
        action[start + mask.argmax()] = 1
        start += options
    return action


def _does_not_work(task: str, misbehaviour: Misbehaviour) -> MRQError:
    return MRQError(f"the environment of {task} does not work: {misbehaviour}.")


def spaces_of(made: Made) -> tuple[Space[Any], Space[Any]]:
    """Returns the spaces of an environment's observations and actions; those of one of them, if it is a VectorEnv."""
    if isinstance(made, VectorEnv):
        return made.single_observation_space, made.single_action_space
    return made.observation_space, made.action_space


def describe_spaces(made: Made, masked: bool) -> dict[str, Any]:
    """Returns what run.json has of the spaces.

    They, and whether there are masks of actions, are text, which is the same in every process. Their definitions, if
    they are not too long, say all that a policy needs to know without the environment.
    """
    spaces = dict(zip(SPACES, spaces_of(made), strict=True))
    described: dict[str, Any] = {name: ADDRESS.sub("", repr(space)) for name, space in spaces.items()}
    described[MASKS] = MASKED if masked else "no action masks"
    with suppress(ValueError):
        described[DEFINITIONS] = {name: definition_of(space) for name, space in spaces.items()}
    return described
