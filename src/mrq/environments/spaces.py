"""Translates between an environment's spaces and the network's terms: frames and actions, as `Spec` describes them."""

from itertools import chain, repeat
from typing import Any

import numpy as np
from gymnasium import Space

from mrq.environments.actions import action_parts, allows_nothing, given_mask, is_mask, mask_of
from mrq.environments.checks import Misbehaviour
from mrq.environments.observations import parts_of, unbatched, values_of
from mrq.environments.options import EnvironmentOptions
from mrq.errors import MRQError
from mrq.interface import Array, Spec


class Translator:
    """Translates one environment's observations and actions to the network's terms and back."""

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        options: EnvironmentOptions = EnvironmentOptions(),  # noqa: B008, it is frozen
        masked: bool = False,  # the environment says which actions are allowed
    ) -> None:
        self.observation_space, self.action_space, self.options = observation_space, action_space, options
        self._parts, self._action = parts_of(observation_space, options), action_parts(action_space)
        self.remarks = [part.remark for part in self._parts if part.remark]  # what the user may not expect
        continuous, choices = self._action.continuous, self._action.choices
        images = tuple(part.image for part in self._parts if part.image)
        numbers = sum(part.numbers for part in self._parts)
        if options.action_history:
            numbers += continuous + sum(choices)
        history = options.history or max(part.history for part in self._parts)
        self.spec = Spec(images, numbers, history, continuous, choices, masked)
        self.remembers = history > 1 or options.action_history  # the networks see earlier steps
        self._first_options = np.cumsum([continuous, *choices])[:-1]

    def frame(self, observation: Any, action: Array | None = None, mask: Array | None = None) -> Array:
        """Returns what the network sees (*frame_shape); refuses an observation that does not fit the space.

        `action` (action_size,) led to it, None at an episode's start; `mask` is what `mask` returned for it.
        """
        values = values_of(self.observation_space, observation)
        read = [part.read(*value) for part, value in zip(self._parts, values, strict=True)]
        images = [array for part, array in zip(self._parts, read, strict=True) if part.image]
        if images and not self.spec.packed:
            return images[0]
        numbers = [array for part, array in zip(self._parts, read, strict=True) if not part.image]
        if self.options.action_history:
            numbers.append(np.zeros(self.spec.action_size, np.float32) if action is None else action)
        if self.spec.masked:
            numbers.append(np.ones(sum(self.spec.choices), np.float32) if mask is None else mask)
        if not images:
            return np.concatenate(numbers)
        frame = np.zeros(self.spec.frame_shape, np.uint8)
        joined = np.concatenate([part.view(np.uint8).ravel() for part in (*numbers, *images)])
        frame[: len(joined)] = joined
        return frame

    def mask(self, mask: Any) -> Array | None:
        """Returns which options an environment's mask allows (options,), or None if there is none that can be used."""
        return mask_of(self.action_space, mask) if self.spec.masked and mask is not None else None

    def mask_in(self, info: Any, observation: Any) -> Array | None:
        """Returns what `mask` does for the mask that an environment returned; refuses one that comes unexpectedly."""
        mask = given_mask(info, observation) if self.spec.choices else None
        if not self.spec.masked and is_mask(self.action_space, mask):
            raise Misbehaviour("it gives an action mask that it did not give when it was first reset")
        return self.mask(mask)

    def finds_mask(self, info: Any, observation: Any) -> bool:
        """Says whether the first reset returned a mask that can be used; remarks on one that allows nothing."""
        mask = given_mask(info, observation)
        found = is_mask(self.action_space, mask)
        if found and allows_nothing(self.action_space, mask):
            self.remarks.append(
                "its first action mask allows nothing, so all is allowed; a 1 stands for what is allowed"
            )
        return found

    def frames(self, observation: Any, actions: Array | None = None, masks: Any = None) -> tuple[Array, bool]:
        """Returns one observation or a batch of them as frames (count, *frame_shape), and whether it was a batch.

        `actions` (count, action_size) and `masks` belong to them as in `frame`; observations may hold their masks. The
        caller is to see that there are as many actions as frames.
        """
        if masks is not None and not self.spec.masked:
            raise MRQError("action masks are given, but the environment gave none in training; leave out action_masks.")
        masks = given_mask(observation) if masks is None else masks
        try:
            single = self.frame(observation, None if actions is None else actions[0], self.mask(masks))
            return single[None], False
        except Misbehaviour as misbehaviour:
            try:
                items = unbatched(self.observation_space, observation)
                led_by = chain([] if actions is None else actions, repeat(None))
                batch = [
                    self.frame(item, action, None if masks is None else self.mask(masks[place]))
                    for place, (item, action) in enumerate(zip(items, led_by, strict=False))
                ]
            except (Misbehaviour, TypeError, KeyError, IndexError, ValueError):
                raise misbehaviour from None
            if not batch:
                raise misbehaviour from None
            return np.stack(batch), True

    def action(self, action: Array) -> Any:
        """Returns the environment's action for the network's (action_size,)."""
        chosen = [
            action[first : first + options].argmax()
            for first, options in zip(self._first_options, self.spec.choices, strict=True)
        ]
        return self._action.make(action[: self.spec.continuous], np.array(chosen, np.int64))
