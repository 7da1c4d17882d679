"""A policy as a module of tensor operations: from a batch of observations, by name, to actions and the next state."""

from collections.abc import Mapping
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor

from mrq.algorithms.algorithm import Learner
from mrq.algorithms.observed import Unpacked
from mrq.environments.actions import MASK
from mrq.environments.spaces import Translator
from mrq.errors import MRQError
from mrq.export.acting import dtype_of, environment_actions
from mrq.export.names import ACTION, EPISODE_START, NEXT, NOISE, OBSERVATION, STATE, named_leaves
from mrq.export.observing import reader_of
from mrq.interface import Spec

ACTION_BEFORE, CARRIED = f"{STATE}action", f"{STATE}carried."
NUMBERS, IMAGE = "numbers", "image"  # of frames with several parts
FRAMES = "frames"  # those of a single part


class PolicyGraph(torch.nn.Module):
    """What `Policy.predict` does with the observations of one agent, which is the learner's only one.

    What an episode hides is a state: it is an input, and the output of the step before. Where `episode_start` is true,
    its values do not matter.
    """

    def __init__(self, translator: Translator, learner: Learner, sampled: bool) -> None:
        super().__init__()
        self.spec, self._learner, self._options = translator.spec, learner, translator.options
        if sampled and not self.spec.choices:
            raise MRQError("actions without choices have no noise, so there is nothing to sample; leave out --sample.")
        space = translator.observation_space
        several = isinstance(space, spaces.Dict | spaces.Tuple)
        named = named_leaves(space, "" if several else OBSERVATION)
        readers = {name: reader_of(leaf, name, self._options) for name, leaf in named}
        self._readers = {name: reader for name, reader in readers.items() if reader is not None}
        self._actions = dict(named_leaves(translator.action_space, ACTION))
        self._sampled = sampled
        self._carries = learner.carries(1)
        self._frame_shapes = _frame_shapes(self.spec)

    def inputs(self, count: int) -> dict[str, Tensor]:
        """Returns inputs of zeros, by name, as many as `count` episodes have that begin."""
        spec = self.spec
        found = {
            name: torch.zeros(count, *(reader.space.shape or ()), dtype=dtype_of(reader.space))
            for name, reader in self._readers.items()
        }
        if spec.masked:
            found.setdefault(MASK, torch.ones(count, sum(spec.choices), dtype=torch.int8))
        if self._sampled:
            found[NOISE] = torch.zeros(count, sum(spec.choices))
        if state := self._state(count):
            found |= {EPISODE_START: torch.ones(count, dtype=torch.bool), **state}
        return found

    def forward(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns actions and the next state by name."""
        spec = self.spec
        state = {name: _unless(inputs[EPISODE_START], inputs[name]) for name in self._state(1)}
        histories = {}  # (batch, history, *shape) each
        for name, frame in self._frames(inputs, state).items():
            histories[name] = frame[:, None]
            if spec.history > 1:
                repeated = frame[:, None].expand(-1, spec.history, *frame.shape[1:])
                appended = torch.cat([inputs[STATE + name][:, 1:], frame[:, None]], 1)
                histories[name] = torch.where(_shaped_as(inputs[EPISODE_START], appended), repeated, appended)
        carried = {name: state[CARRIED + name][None].clone() for name in self._carries}  # to be changed in place
        gumbel = None
        if self._sampled:
            gumbel = torch.nn.functional.pad(inputs[NOISE], (spec.continuous, 0))[None]
        chosen = self._learner.choose(self._states(histories), gumbel, carried)[0]
        following = {STATE + name: history for name, history in histories.items()} if spec.history > 1 else {}
        if self._options.action_history:
            following[ACTION_BEFORE] = chosen
        following |= {CARRIED + name: tensor[0] for name, tensor in carried.items()}
        made = environment_actions(chosen, spec, self._actions)
        return made | {NEXT + name: tensor for name, tensor in following.items()}

    def _state(self, count: int) -> dict[str, Tensor]:
        """Returns what `count` episodes that begin have as their state, by the names of the inputs: zeros."""
        spec, state = self.spec, {}
        if spec.history > 1:
            for name, (shape, dtype) in self._frame_shapes.items():
                state[STATE + name] = torch.zeros(count, spec.history, *shape, dtype=dtype)
        if self._options.action_history:
            state[ACTION_BEFORE] = torch.zeros(count, spec.action_size)
        for name, tensor in self._carries.items():
            state[CARRIED + name] = torch.zeros(count, *tensor.shape[2:], dtype=tensor.dtype)
        return state

    def _frames(self, inputs: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns what networks see of the observations (batch, *shape), by part, as `Translator.frame` does."""
        images: list[Tensor] = []
        numbers: list[Tensor] = []
        for name, reader in self._readers.items():
            (images if reader.is_image else numbers).append(reader.read(inputs[name]))
        if self._options.action_history:
            numbers.append(state[ACTION_BEFORE])
        if self.spec.masked:
            numbers.append(self._allowed(inputs[MASK]))
        if not images:
            return {FRAMES: torch.cat(numbers, 1)}
        if not self.spec.packed:
            return {FRAMES: images[0]}
        found = {f"{IMAGE}{place}": image for place, image in enumerate(images)}
        return found | ({NUMBERS: torch.cat(numbers, 1)} if numbers else {})

    def _allowed(self, mask: Tensor) -> Tensor:
        """Returns 1 for every option that is allowed; a choice whose mask allows none allows all."""
        parts = torch.split(mask.flatten(1).float(), list(self.spec.choices), 1)
        return torch.cat([torch.where(part.sum(1, keepdim=True) > 0, part, 1.0) for part in parts], 1)

    def _states(self, histories: Mapping[str, Tensor]) -> Any:
        """Returns states as learners take them, (1, batch, …)."""
        if not self.spec.packed:
            return histories[FRAMES].flatten(1, 2)[None]
        images = [histories[f"{IMAGE}{place}"].flatten(1, 2)[None] for place in range(len(self.spec.images))]
        floats = histories[NUMBERS] if self.spec.floats else torch.zeros(images[0].shape[1], self.spec.history, 0)
        return Unpacked(tuple(images), floats[None])


def _frame_shapes(spec: Spec) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    """Returns the shape and dtype of each part of a frame."""
    if not spec.packed:
        dtype = torch.uint8 if spec.images else torch.float32
        return {FRAMES: (spec.frame_shape, dtype)}
    found = {f"{IMAGE}{place}": (tuple(image), torch.uint8) for place, image in enumerate(spec.images)}
    return found | ({NUMBERS: ((spec.floats,), torch.float32)} if spec.floats else {})


def _unless(start: Tensor, values: Tensor) -> Tensor:
    """Returns values (batch, *shape) with zeros where an episode begins."""
    return torch.where(_shaped_as(start, values), torch.zeros_like(values), values)


def _shaped_as(start: Tensor, values: Tensor) -> Tensor:
    return start.view(-1, *[1] * (values.ndim - 1))
