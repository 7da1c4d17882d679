"""One environment in the network's terms, guarded against what an environment must not do."""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mrq.environments.making import Environment
from mrq.environments.spaces import Border, Fault
from mrq.errors import MRQError, one_line
from mrq.interface import Array


class Guarded:
    """One environment in the network's terms. Whatever it does wrong becomes a Fault of one sentence."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        if not all(hasattr(environment, name) for name in ("observation_space", "action_space")):
            raise MRQError(f"{environment} has no observation_space or no action_space; Gymnasium's API asks for both.")
        self.border = Border(environment.observation_space, environment.action_space)

    def reset(self, seed: int) -> Array:
        result = self._call(lambda: self.environment.reset(seed=seed))
        if not isinstance(result, tuple) or len(result) != 2:
            raise Fault("reset() did not return the two values (observation, info) of Gymnasium's API")
        return self.border.frame(result[0])

    def step(self, action: Array) -> tuple[Array, float, bool, bool]:
        result = self._call(lambda: self.environment.step(self.border.action(action)))
        if not isinstance(result, tuple) or len(result) != 5:
            raise Fault(
                "step() did not return the five values (observation, reward, terminated, truncated, info) "
                "of Gymnasium's API"
            )
        observation, reward, terminated, truncated, _ = result
        if not all(isinstance(flag, bool | np.bool_) for flag in (terminated, truncated)):
            raise Fault(f"terminated is {terminated!r} and truncated {truncated!r} where booleans were expected")
        number = np.asarray(reward)
        if number.ndim or number.dtype.kind not in "buif":
            raise Fault(f"the reward is {reward!r} where a single number was expected")
        with np.errstate(over="ignore"):
            number = number.astype(np.float32)
        if not np.isfinite(number):
            raise Fault(f"the reward is {reward!r}, which is no finite float32")
        return self.border.frame(observation), float(number), bool(terminated), bool(truncated)

    def _call(self, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except (Exception, SystemExit) as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            what = one_line(error)
            raise Fault(f"it raised {what} ({Path(place.filename).name}, line {place.lineno})") from error
