"""One environment in the network's terms, guarded against what an environment must not do."""

import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

import numpy as np

from mrq.environments.making import Environment
from mrq.environments.spaces import Border, Fault, as_array
from mrq.errors import MRQError, one_line
from mrq.interface import Array

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _faults_alone(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Whatever it raises becomes a Fault, but for Ctrl-C."""

    @wraps(function)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except (Fault, KeyboardInterrupt):
            raise
        except BaseException as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            what = one_line(error)
            raise Fault(f"it raised {what} ({Path(place.filename).name}, line {place.lineno})") from error

    return guarded


class Guarded:
    """One environment in the network's terms. Whatever it does wrong becomes a Fault of one sentence."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        try:
            spaces = environment.observation_space, environment.action_space
        except Exception as error:
            raise MRQError(
                f"{environment} has no observation_space or no action_space ({one_line(error)}); "
                "Gymnasium's API asks for both."
            ) from error
        self.border = Border(*spaces)

    @_faults_alone
    def reset(self, seed: int) -> Array:
        result = self.environment.reset(seed=seed)
        if not isinstance(result, tuple) or len(result) != 2:
            raise Fault("reset() did not return the two values (observation, info) of Gymnasium's API")
        return self.border.frame(result[0])

    @_faults_alone
    def step(self, action: Array) -> tuple[Array, float, bool, bool]:
        result = self.environment.step(self.border.action(action))
        if not isinstance(result, tuple) or len(result) != 5:
            raise Fault(
                "step() did not return the five values (observation, reward, terminated, truncated, info) "
                "of Gymnasium's API"
            )
        observation, reward, terminated, truncated, _ = result
        if not all(isinstance(flag, bool | np.bool_) for flag in (terminated, truncated)):
            raise Fault(f"terminated is {terminated!r} and truncated {truncated!r} where booleans were expected")
        number = as_array(reward, "the reward")
        if number.ndim or number.dtype.kind not in "buif":
            raise Fault(f"the reward is {reward!r} where a single number was expected")
        with np.errstate(over="ignore"):
            number = number.astype(np.float32)
        if not np.isfinite(number):
            raise Fault(f"the reward is {reward!r}, which is no finite float32")
        return self.border.frame(observation), float(number), bool(terminated), bool(truncated)

    def close(self) -> None:
        with suppress(Fault):  # nothing is lost by it any more
            _faults_alone(self.environment.close)()
