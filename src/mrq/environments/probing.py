"""What a task looks like and how long its steps take, found out by trying: before anything is trained or written."""

import time
from dataclasses import dataclass

import numpy as np

from mrq.environments.guarded import Guarded
from mrq.environments.making import Environment, make_environment
from mrq.environments.spaces import Fault
from mrq.errors import MRQError
from mrq.interface import Spec

TRIED_STEPS = 20


@dataclass(frozen=True)
class Probe:
    spec: Spec
    spaces: dict[str, str]
    seconds: float  # of a step


def probe(task: str) -> Probe:
    """Plays a few steps; refuses an environment that does not work at all."""
    environment = Guarded(make_environment(task))
    try:
        return try_out(environment, task)
    finally:
        environment.environment.close()


def try_out(environment: Guarded, task: str) -> Probe:
    spec = environment.border.spec
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
    except Fault as fault:
        raise MRQError(f"the environment of {task} does not work: {fault}.") from fault
    return Probe(spec, describe_spaces(environment.environment), float(np.median(seconds)))


def describe_spaces(environment: Environment) -> dict[str, str]:
    return {"observation": repr(environment.observation_space), "action": repr(environment.action_space)}
