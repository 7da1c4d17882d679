"""Gymnasium's VectorEnv: many environments of one agent that are stepped together, for example on a GPU."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from mrq.environments.actions import MASK, batched
from mrq.environments.checked import raises_only_misbehaviour
from mrq.environments.checks import Misbehaviour, as_array
from mrq.environments.environments import NO_FAULTS, Faults, failed_at, fault_sentence
from mrq.environments.making import Vector
from mrq.environments.observations import unbatched
from mrq.environments.options import EnvironmentOptions
from mrq.environments.spaces import Translator
from mrq.errors import MRQError
from mrq.interface import Array, Spec, Transitions, common_spec

NEXT_STEP, SAME_STEP, DISABLED = MODES = ("NextStep", "SameStep", "Disabled")  # values of Gymnasium's AutoresetMode
AUTORESET_MODE, LAST_OBSERVATIONS, LAST_INFO = "autoreset_mode", "final_obs", "final_info"  # Gymnasium's names


class CheckedVector:
    """A VectorEnv in the network's terms. Whatever it does wrong raises a Misbehaviour of one sentence."""

    def __init__(self, vector: Vector, options: EnvironmentOptions, masked: bool = False) -> None:
        self.vector, self.count, self.mode = vector, int(vector.num_envs), _autoreset_mode(vector)
        self.translator = Translator(vector.single_observation_space, vector.single_action_space, options, masked)
        # The latest frames; where an episode has ended, the first one of the next, unless a step will bring it.
        self.frames = np.zeros((self.count, *self.spec.frame_shape), self.spec.frame_dtype)
        self.masks: list[Array | None] = [None] * self.count  # which options the latest observations allow
        self._ended = np.zeros(self.count, bool)

    @property
    def spec(self) -> Spec:
        """Returns what the networks see of each environment."""
        return self.translator.spec

    @raises_only_misbehaviour
    def reset(self, seed: int) -> Array:
        """Begins an episode in every environment; returns their first frames (count, *frame_shape)."""
        observations, info = self._reset(seed=seed)  # of the first one: not every VectorEnv takes a list
        self._ended[:] = False
        self.frames = self._read(observations, [None] * self.count, info)
        return self.frames

    @raises_only_misbehaviour
    def step(self, actions: Array) -> tuple[Array, Array, Array, Array]:
        """Takes an action (count, action_size) in every environment.

        Returns their next frames, rewards, terminated and truncated. Where an episode had ended and another step begins
        the next one, this is that step.
        """
        taken = batched(self.translator.action_space, [self.translator.action(action) for action in actions])
        result = self.vector.step(taken)
        if not isinstance(result, tuple) or len(result) != 5:
            raise Misbehaviour(
                "step() did not return the five values (observations, rewards, terminations, truncations, infos) of "
                "Gymnasium's VectorEnv"
            )
        observations, rewards, terminated, truncated, info = result
        rewards = self._rewards(rewards)
        terminated, truncated = self._flags(terminated, "terminations"), self._flags(truncated, "truncations")
        ended = terminated | truncated
        begins = self._ended if self.mode == NEXT_STEP else ended & (self.mode == SAME_STEP)
        led_by = [None if is_first else action for is_first, action in zip(begins, actions, strict=True)]
        frames = self._read(observations, led_by, info)
        self.frames, self._ended = frames.copy(), ended
        if ended.any() and self.mode == SAME_STEP:
            if LAST_OBSERVATIONS not in info:
                raise Misbehaviour(
                    f"an episode ended and its infos have no {LAST_OBSERVATIONS!r}, as its mode SameStep requires"
                )
            for place in np.flatnonzero(ended).tolist():
                last = _at(info[LAST_OBSERVATIONS], place)
                mask = self.translator.mask_in(_with_mask(info.get(LAST_INFO), place), last)
                frames[place] = self.translator.frame(last, actions[place], mask)
        if ended.any() and self.mode == DISABLED:
            observations, info = self._reset(options={"reset_mask": ended.copy()})
            self.frames[ended] = self._read(observations, [None] * self.count, info, ended)[ended]
        return frames, rewards, terminated, truncated

    @raises_only_misbehaviour
    def gives_masks(self, seed: int) -> bool:
        """Begins episodes to find out whether the environments say which of their options are allowed."""
        if not self.spec.choices:
            return False
        observations, info = self._reset(seed=seed)
        first = unbatched(self.translator.observation_space, observations)[0]
        return self.translator.finds_mask(_with_mask(info, 0), first)

    def close(self) -> None:
        """Closes the environments. Their errors are ignored, because nothing can be lost any more."""
        with suppress(Misbehaviour):
            raises_only_misbehaviour(self.vector.close)()

    def _reset(self, **arguments: Any) -> tuple[Any, Any]:
        result = self.vector.reset(**arguments)
        if not isinstance(result, tuple) or len(result) != 2:
            raise Misbehaviour("reset() did not return the two values (observations, infos) of Gymnasium's VectorEnv")
        return result

    def _read(self, observations: Any, led_by: Sequence[Array | None], info: Any, which: Array | None = None) -> Array:
        """Returns frames (count, *frame_shape) of a batch of observations, and of the actions that led to them."""
        items = unbatched(self.translator.observation_space, observations)
        if len(items) != self.count:
            raise Misbehaviour(f"it returned {len(items):,} observations for {self.count:,} environments")
        frames = np.zeros((self.count, *self.spec.frame_shape), self.spec.frame_dtype)
        for place, item in enumerate(items):
            if which is None or which[place]:
                self.masks[place] = self.translator.mask_in(_with_mask(info, place), item)
                frames[place] = self.translator.frame(item, led_by[place], self.masks[place])
        return frames

    def _rewards(self, rewards: Any) -> Array:
        with np.errstate(over="ignore"):
            numbers = self._row(rewards, "rewards", "buif").astype(np.float32)
        if not np.isfinite(numbers).all():
            raise Misbehaviour("the rewards contain NaN, infinity, or numbers too large for float32")
        return numbers

    def _flags(self, flags: Any, name: str) -> Array:
        return self._row(flags, name, "b").copy()

    def _row(self, values: Any, name: str, kinds: str) -> Array:
        """Returns an array with one value for each environment."""
        array = as_array(values, f"the {name}")
        if array.shape != (self.count,) or array.dtype.kind not in kinds:
            raise Misbehaviour(
                f"the {name} are {array.dtype} of shape {array.shape}; they must be one value for each of the "
                f"{self.count:,} environments"
            )
        return array


class VectorEnvironments:
    """The `Environments` of one VectorEnv per agent, in this process. Their episodes cannot be replayed.

    The first episodes have the seeds that they are given; the seeds of later ones are the VectorEnv's own, except where
    all of an agent's environments begin an episode together.
    """

    def __init__(self, vectors: Sequence[CheckedVector], names: Sequence[str]) -> None:
        if len({(vector.count, vector.mode) for vector in vectors}) > 1:
            raise MRQError(
                "the agents' VectorEnvs differ in their number of environments, or in their autoreset_mode; train "
                "them in separate calls."
            )
        self._vectors, self._copies = vectors, vectors[0].count
        self.begin_by_themselves = vectors[0].mode == NEXT_STEP
        self.names: Sequence[str] = [name for name in names for _ in range(self._copies)]
        self.specs: Sequence[Spec] = [vector.spec for vector in vectors for _ in range(self._copies)]
        self.spec = common_spec(self.specs, self.names)

    def reset(self, which: Array, seeds: Sequence[int], step: int) -> tuple[Array, Faults]:
        """Begins episodes where `which` (environments,) is true; returns first frames (environments, *frame_shape).

        An episode that has not ended continues, unless all of an agent's environments are asked to begin one.
        """
        frames, failed = self._zero_frames(), dict[int, str]()
        for vector, own in self._asked(which):
            try:
                firsts = vector.reset(seeds[own.start]) if which[own].all() else vector.frames
            except Misbehaviour as misbehaviour:
                failed |= self._failures(own, step, misbehaviour)
            else:
                frames[own, : firsts.shape[1]] = firsts
        return _where(which, frames), Faults(failed, frozenset())

    def step(self, which: Array, actions: Array, step: int) -> tuple[Transitions, Faults]:
        """Steps the agents' environments, for the agents of those where `which` is true."""
        frames, failed = self._zero_frames(), dict[int, str]()
        rewards = np.zeros(len(frames), np.float32)
        terminated, truncated = np.zeros((2, len(frames)), bool)
        for vector, own in self._asked(which):
            try:
                result = vector.step(actions[own, : vector.spec.action_size])
            except Misbehaviour as misbehaviour:
                failed |= self._failures(own, step, misbehaviour)
            else:
                own_frames, rewards[own], terminated[own], truncated[own] = result
                frames[own, : own_frames.shape[1]] = own_frames
        results = (_where(which, each) for each in (rewards, terminated, truncated, frames))
        return Transitions(actions, *results), Faults(failed, frozenset())

    def replay_episode(self, environment: int, seed: int, actions: Array) -> tuple[Array | None, Faults]:
        """Returns None, because one environment cannot be stepped without the others."""
        return None, NO_FAULTS

    def close(self) -> None:
        """Closes all environments."""
        for vector in self._vectors:
            vector.close()

    def _asked(self, which: Array) -> Iterator[tuple[CheckedVector, slice]]:
        """Yields the vectors of which an environment is in `which`, and the places of theirs."""
        for agent, vector in enumerate(self._vectors):
            own = slice(agent * self._copies, (agent + 1) * self._copies)
            if which[own].any():
                yield vector, own

    def _failures(self, own: slice, step: int, misbehaviour: Misbehaviour) -> dict[int, str]:
        sentence = fault_sentence(self.names[own.start], failed_at(step), str(misbehaviour))
        return dict.fromkeys(range(own.start, own.stop), sentence)

    def _zero_frames(self) -> Array:
        return np.zeros((len(self.names), *self.spec.frame_shape), self.spec.frame_dtype)


def _autoreset_mode(vector: Vector) -> str:
    """Returns what a VectorEnv does where an episode ends."""
    given = vector.metadata.get(AUTORESET_MODE)
    mode = str(getattr(given, "value", given))
    if mode not in MODES:
        raise MRQError(
            f"{vector} does not say how its episodes begin; set its metadata[{AUTORESET_MODE!r}] to one of Gymnasium's "
            f"AutoresetMode: {', '.join(MODES)}."
        )
    return mode


def _with_mask(info: Any, place: int) -> dict[str, Any]:
    """Returns one environment's mask from a VectorEnv's infos as its own info would hold it; empty if there is none."""
    if not isinstance(info, Mapping):  # some give a row of infos, rather than an info of rows
        own = None if info is None else info[place]
        return {MASK: own[MASK]} if isinstance(own, Mapping) and MASK in own else {}
    given = info.get(f"_{MASK}")  # where there is one
    if MASK not in info or (given is not None and not given[place]):
        return {}
    return {MASK: _at(info[MASK], place)}


def _at(batch: Any, place: int) -> Any:
    """Returns one environment's value of nested arrays."""
    if isinstance(batch, Mapping):
        return {name: _at(part, place) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(_at(part, place) for part in batch)
    return batch[place]


def _where(which: Array, values: Array) -> Array:
    """Returns values (environments, …) with zeros where `which` is false."""
    values[~which] = 0
    return values
