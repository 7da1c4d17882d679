"""Taking turns with a library's algorithm: it calls its environment, while our training loop wants to call it.

The library runs in a thread of its own. Its environment hands every call to the training loop and waits for the answer,
so exactly one of the two runs at any time, and a run is as reproducible as in one thread.
"""

import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from mrq.interface import Array, Spec


class Reset(NamedTuple):
    """The library waits for an episode's first state."""


class Step(NamedTuple):
    """The library waits for what this action leads to."""

    action: Any


class Finished(NamedTuple):
    """The library has learned for as many steps as it was asked to."""


class Failed(NamedTuple):
    """The library raised an error."""

    error: BaseException


class Outcome(NamedTuple):
    """What an action led to."""

    state: Array
    reward: float
    terminated: bool
    truncated: bool


class _Closed(BaseException):
    """Ends the library's thread."""


Request = Reset | Step | Finished | Failed


def _action_space(spec: Spec) -> gym.Space[Any]:
    if not spec.choices:
        return gym.spaces.Box(-1, 1, (spec.continuous,))
    return (
        gym.spaces.Discrete(*spec.choices) if len(spec.choices) == 1 else gym.spaces.MultiDiscrete(list(spec.choices))
    )


class RemoteEnvironment(gym.Env[Array, Any]):
    """The environment that the library sees. It asks the training loop for everything."""

    def __init__(self, spec: Spec) -> None:
        low, high = (0, 255) if spec.images else (-np.inf, np.inf)
        self.observation_space = gym.spaces.Box(low, high, spec.state_shape, spec.frame_dtype)
        self.action_space = _action_space(spec)
        self.requests: SimpleQueue[Request] = SimpleQueue()
        self.answers: SimpleQueue[Array | Outcome | None] = SimpleQueue()  # None: the conversation is over

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        return self._ask(Reset()), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        outcome: Outcome = self._ask(Step(action))
        return *outcome, {}

    def _ask(self, request: Request) -> Any:
        self.requests.put(request)
        if (answer := self.answers.get()) is None:
            raise _Closed
        return answer


class LibraryThread:
    """A library's algorithm as something that is asked for an action and told what came of it."""

    def __init__(self, environment: RemoteEnvironment) -> None:
        self._environment = environment
        self._request: Request = Finished()
        self._end: weakref.finalize[..., LibraryThread] | None = (
            None  # ends the thread, when this object or Python ends
        )

    @property
    def wants_outcome(self) -> bool:
        """Whether it waits for what its last action led to."""
        return isinstance(self._request, Step)

    def action(self, state: Array, learn: Callable[[], object]) -> Any:
        """Returns the action that it takes in this state.

        `learn` runs it, whenever it has finished; it must take at least one step, and must not hold this object.
        """
        while not isinstance(self._request, Step):
            if isinstance(self._request, Reset):
                self._environment.answers.put(state)
            else:
                self._start(learn)
            self._wait()
        return self._request.action

    def tell(self, outcome: Outcome) -> None:
        """Tells it what its action led to; it learns from that, until it waits for something again."""
        self._environment.answers.put(outcome)
        self._wait()

    def _start(self, learn: Callable[[], object]) -> None:
        if self._end is not None:
            self._end.detach()  # its thread has finished
        thread = threading.Thread(target=_run, args=(learn, self._environment.requests), daemon=True)
        thread.start()
        self._end = weakref.finalize(self, _end, thread, self._environment.answers)

    def _wait(self) -> None:
        self._request = self._environment.requests.get()
        if isinstance(self._request, Failed):
            error, self._request = self._request.error, Finished()
            raise error


def _end(thread: threading.Thread, answers: "SimpleQueue[Array | Outcome | None]") -> None:
    """Ends a library's thread and waits for it, because Python must not end while it runs."""
    if thread.is_alive() and thread is not threading.current_thread():
        answers.put(None)
        thread.join()


def _run(learn: Callable[[], object], requests: SimpleQueue[Request]) -> None:
    try:
        learn()
    except _Closed:
        return
    except BaseException as error:
        requests.put(Failed(error))
    else:
        requests.put(Finished())
