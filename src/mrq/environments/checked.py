"""One environment in the network's terms, checked at every call."""

import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from mrq.environments.checks import Misbehaviour, as_array
from mrq.environments.making import Environment
from mrq.environments.options import EnvironmentOptions
from mrq.environments.spaces import Translator
from mrq.errors import MRQError, one_line
from mrq.interface import Array, Spec

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
LINEAR_REWARD = "mo_gymnasium.wrappers:LinearReward"


def raises_only_misbehaviour(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Turns whatever the function raises, except for Ctrl-C, into a Misbehaviour."""

    @wraps(function)
    def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except (Misbehaviour, KeyboardInterrupt):
            raise
        except BaseException as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            what = one_line(error)
            raise Misbehaviour(f"it raised {what} ({Path(place.filename).name}, line {place.lineno})") from error

    return checked


class CheckedEnvironment:
    """One environment in the network's terms. Whatever it does wrong raises a Misbehaviour of one sentence."""

    def __init__(
        self,
        environment: Environment,
        options: EnvironmentOptions = EnvironmentOptions(),  # noqa: B008, it is frozen
        masked: bool = False,  # it says which actions are allowed; see `gives_masks`
    ) -> None:
        self.environment = environment
        try:
            spaces = environment.observation_space, environment.action_space
        except Exception as error:
            raise MRQError(
                f"{environment} has no observation_space or no action_space ({one_line(error)}); "
                "Gymnasium's API requires both."
            ) from error
        self.translator = Translator(*spaces, options, masked)
        self.mask: Array | None = None  # which options the latest observation allows, where the environment says so

    @property
    def spec(self) -> Spec:
        """Returns what the networks see of the environment."""
        return self.translator.spec

    @raises_only_misbehaviour
    def reset(self, seed: int) -> Array:
        """Begins an episode; returns its first frame (*frame_shape)."""
        observation, info = self._reset(seed)
        return self._frame(observation, None, info)

    @raises_only_misbehaviour
    def step(self, action: Array) -> tuple[Array, float, bool, bool]:
        """Takes the network's action (action_size,); returns the next frame, the reward, terminated and truncated."""
        result = self.environment.step(self.translator.action(action))
        if not isinstance(result, tuple) or len(result) != 5:
            raise Misbehaviour(
                "step() did not return the five values (observation, reward, terminated, truncated, info) "
                "of Gymnasium's API"
            )
        observation, reward, terminated, truncated, info = result
        if not all(isinstance(flag, bool | np.bool_) for flag in (terminated, truncated)):
            raise Misbehaviour(f"terminated is {terminated!r} and truncated is {truncated!r}; both must be booleans")
        number = as_array(reward, "the reward")
        if number.ndim == 1 and number.dtype.kind in "buif":
            raise Misbehaviour(
                f"the reward is {reward!r}; it must be a single number: add --wrapper {LINEAR_REWARD}, which sums its "
                "entries, or weigh them in a wrapper of your own"
            )
        if number.ndim or number.dtype.kind not in "buif":
            raise Misbehaviour(f"the reward is {reward!r}; it must be a single number")
        with np.errstate(over="ignore"):
            number = number.astype(np.float32)
        if not np.isfinite(number):
            raise Misbehaviour(f"the reward is {reward!r}; it must be finite in float32")
        return self._frame(observation, action, info), float(number), bool(terminated), bool(truncated)

    @raises_only_misbehaviour
    def gives_masks(self, seed: int) -> bool:
        """Begins an episode to find out whether the environment says which of its options are allowed."""
        if not self.spec.choices:
            return False
        observation, info = self._reset(seed)
        return self.translator.finds_mask(info, observation)

    def _reset(self, seed: int) -> tuple[Any, Any]:
        result = self.environment.reset(seed=seed)
        if not isinstance(result, tuple) or len(result) != 2:
            raise Misbehaviour("reset() did not return the two values (observation, info) of Gymnasium's API")
        return result

    def _frame(self, observation: Any, action: Array | None, info: Any) -> Array:
        self.mask = self.translator.mask_in(info, observation)
        return self.translator.frame(observation, action, self.mask)

    def close(self) -> None:
        """Closes the environment. Its errors are ignored, because nothing can be lost any more."""
        with suppress(Misbehaviour):
            raises_only_misbehaviour(self.environment.close)()
