"""Tries tasks out before anything is trained or written: what they look like and how long their steps take."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from mrq.environments.checked import CheckedEnvironment
from mrq.environments.making import MAKING_SECONDS, Environment, make_environment
from mrq.environments.spaces import Misbehaviour
from mrq.errors import MRQError
from mrq.interface import Spec
from mrq.processes import CLOSING_SECONDS, Child, Pipe

TRIED_STEPS = 20


@dataclass(frozen=True)
class Probe:
    """The result of trying a task out."""

    environment: str  # what was made: the task's, or the one given instead
    spec: Spec
    spaces: dict[str, str]
    seconds: float  # per step


def probe(tasks: Sequence[str], timeout: float, environment: str | None = None) -> dict[str, Probe]:
    """Tries every task out; refuses one that does not work, or that takes `timeout` seconds longer than making may.

    `environment`, if given, is the one that is made for every task.
    """
    probes = {}
    for made, result in trials(tasks if environment is None else [environment], timeout):
        if isinstance(result, MRQError):
            raise result
        probes[made] = result
    return probes if environment is None else dict.fromkeys(tasks, probes[environment])


def trials(tasks: Sequence[str], timeout: float) -> Iterator[tuple[str, Probe | MRQError]]:
    """Tries every task in a process of its own, as many at once as there are cores; yields what was found out."""
    cores = len(os.sched_getaffinity(0))
    for start in range(0, len(tasks), cores):
        children = {task: Child(_try, (task,)) for task in tasks[start : start + cores]}
        try:
            for task, child in children.items():
                yield task, _result(child, task, timeout + MAKING_SECONDS)
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


def _try(pipe: Pipe, task: str) -> None:
    """Runs in the child."""
    environment = None
    result: Probe | MRQError
    try:
        environment = CheckedEnvironment(make_environment(task))
        result = try_out(environment, task)
    except MRQError as error:
        result = MRQError(str(error))
    with suppress(OSError):  # the parent has ended
        pipe.send(result)
    if environment is not None:
        environment.close()
    os._exit(0)  # what else the environment does when Python exits does not concern the trial


def try_out(environment: CheckedEnvironment, task: str) -> Probe:
    """Takes a few steps in an environment; refuses one that misbehaves."""
    spec = environment.spec
    action = np.eye(spec.action_size, dtype=np.float32)[0] if spec.discrete else np.zeros(spec.action_size, np.float32)
    seconds = []
    try:
        environment.reset(0)
        for _ in range(TRIED_STEPS):
            began = time.perf_counter()
            _, _, terminated, truncated = environment.step(action)
            seconds.append(time.perf_counter() - began)
            if terminated or truncated:
                environment.reset(0)
    except Misbehaviour as misbehaviour:
        raise MRQError(f"the environment of {task} does not work: {misbehaviour}.") from misbehaviour
    return Probe(task, spec, describe_spaces(environment.environment), float(np.median(seconds)))


def describe_spaces(environment: Environment) -> dict[str, str]:
    """Returns an environment's spaces as text."""
    return {"observation": repr(environment.observation_space), "action": repr(environment.action_space)}
