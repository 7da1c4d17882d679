"""What training needs of its environments, wherever they run: in this process or in others."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from mrq.errors import MRQError
from mrq.interface import Array, Spec, Transitions


class EnvironmentFault(MRQError):
    """An environment failed. What was learned until then is sound."""


class Faults(NamedTuple):
    """What went wrong with environments during one call. It is true if anything did."""

    failed: dict[int, str]  # by environment, one sentence each
    # These were made again, because another environment crashed the process that they shared. Bring them back to where
    # they were, then repeat the call for them.
    restarted: frozenset[int]

    def __bool__(self) -> bool:
        return bool(self.failed or self.restarted)


NO_FAULTS = Faults({}, frozenset())


class Environments(Protocol):
    """Environments that are called together; an agent's lie side by side. If one fails, the others continue.

    Frames are padded with zeros to the shape in `spec`, and each environment takes its own part of an action. `step`
    is the agents' step, for messages. Results are zeros where an environment is not in `which`, failed or was
    restarted. An environment in another process that failed in an earlier call is not called again, but reported again.
    """

    names: Sequence[str]  # of the agents, one per environment
    specs: Sequence[Spec]
    spec: Spec  # the smallest that holds all of `specs`
    begin_by_themselves: bool  # after an episode's last step, another step only begins the next episode

    def reset(self, which: Array, seeds: Sequence[int], step: int) -> tuple[Array, Faults]:
        """Begins episodes where `which` (environments,) is true; returns first frames (environments, *frame_shape)."""

    def step(self, which: Array, actions: Array, step: int) -> tuple[Transitions, Faults]:
        """Steps the environments where `which` is true."""

    def replay_episode(self, environment: int, seed: int, actions: Array) -> tuple[Array | None, Faults]:
        """Replays an environment's episode; returns its last frame, or None if it ended early or cannot be replayed."""

    def close(self) -> None:
        """Closes all environments."""


def fault_sentence(name: str, what: str, why: str) -> str:
    """Returns the message for an environment that failed: which one, what it did, and why."""
    return f"the environment of {name} {what}: {why}."


def failed_at(step: int) -> str:
    """Returns what an environment did that failed at this step, for `fault_sentence`."""
    return f"failed at step {step:,}"
