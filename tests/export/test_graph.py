"""Exported policies read observations and make actions as their agents do, for any spaces."""

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mrq.algorithms.mrq.noise import acting_noise
from mrq.algorithms.observed import Unpacked, allowed_actions, observed
from mrq.environments.images import layout_of
from mrq.environments.options import EnvironmentOptions
from mrq.environments.spaces import Translator
from mrq.export.acting import environment_actions
from mrq.export.graph import PolicyGraph
from mrq.export.names import ACTION, named_leaves
from mrq.export.observing import reader_of
from tests.environments.test_spaces_properties import ACTIONS, BOX, OBSERVATIONS, SEEDS, SIDE


class Watching:
    """A learner that keeps the states that it is shown, and always does the same."""

    def __init__(self, spec):
        self.spec, self.seen = spec, None

    def carries(self, count):
        return {}

    def choose(self, states, gumbel, carried):
        self.seen = states
        count = (states.floats if isinstance(states, Unpacked) else states).shape[1]
        return torch.zeros(1, count, self.spec.action_size)


def tensors_of(space, batch, name="observation"):
    """Returns a batch of observations by the names of a graph's inputs."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        prefix = "" if name == "observation" else f"{name}."
        return {n: t for key, part in parts for n, t in tensors_of(part, batch[key], f"{prefix}{key}").items()}
    return {} if isinstance(space, spaces.Text) else {name: torch.from_numpy(np.asarray(batch))}


@settings(deadline=None)
@given(OBSERVATIONS, st.integers(1, 3), st.booleans(), st.booleans(), SEEDS)
def test_networks_see_what_they_see_of_the_environment(seen, history, action_history, masked, seed):
    """Over three steps, of which the last begins an episode in the second place of the batch."""
    space, rng, count = seen.space, np.random.default_rng(seed), 3
    space.seed(seed)
    assume(seen.of(space.sample()) != ([], []))
    options = EnvironmentOptions(image_size=SIDE, history=history, action_history=action_history)
    translator = Translator(space, spaces.MultiDiscrete([2, 3]), options, masked)
    spec, learner = translator.spec, Watching(translator.spec)
    graph = PolicyGraph(translator, learner, sampled=False)
    state = {name: t for name, t in graph.inputs(count).items() if name.startswith("state.")}
    frames, before = np.zeros((count, spec.history, *spec.frame_shape), spec.frame_dtype), None
    for start in ([True] * 3, [False] * 3, [False, True, False]):
        values = [space.sample() for _ in range(count)]
        masks = rng.integers(0, 2, (count, 5)).astype(np.int8) if masked else None
        batch = concatenate(space, values, create_empty_array(space, count))
        led = np.zeros((count, 5), np.float32) if before is None else np.where(np.array(start)[:, None], 0, before)
        latest = np.stack(
            [
                translator.frame(value, action, None if masks is None else translator.mask(mask))
                for value, action, mask in zip(values, led, masks if masked else [None] * count, strict=True)
            ]
        )
        frames = np.concatenate([frames[:, 1:], latest[:, None]], 1)
        frames[np.array(start)] = latest[np.array(start)][:, None]
        inputs = {**graph.inputs(count), **tensors_of(space, batch), **state}
        if masked:
            inputs["action_mask"] = torch.from_numpy(masks)
        if state:
            inputs["episode_start"] = torch.tensor(start)
        outputs = graph(inputs)
        states = torch.from_numpy(frames.reshape(count, spec.history * spec.frame_shape[0], *spec.frame_shape[1:]))
        expected, found = observed(states, spec), observed(_first(learner.seen), spec)
        assert len(expected.images) == len(found.images)
        for ours, theirs in zip(expected.images, found.images, strict=True):
            assert torch.equal(ours, theirs)
        assert (expected.numbers is None) == (found.numbers is None)
        assert expected.numbers is None or torch.equal(expected.numbers, found.numbers)
        own = torch.ones(spec.action_size, dtype=torch.bool)
        assert torch.equal(allowed_actions(states, spec, own), allowed_actions(_first(learner.seen), spec, own))
        state = {name: outputs[f"next_{name}"] for name in state}
        before = np.zeros((count, 5), np.float32)
        if action_history:  # as if other actions had been taken
            before = acting_noise(rng, count, spec)["random_actions"]
            state["state.action"] = torch.from_numpy(before)


def _first(states):
    if isinstance(states, Unpacked):
        return Unpacked(tuple(image[0] for image in states.images), states.floats[0])
    return states[0]


@settings(deadline=None)
@given(ACTIONS, SEEDS)
def test_actions_are_those_that_the_environment_takes(chosen, seed):
    translator = Translator(BOX, chosen.space)
    drawn = acting_noise(np.random.default_rng(seed), 4, translator.spec)["random_actions"]
    leaves = dict(named_leaves(chosen.space, ACTION))
    made = environment_actions(torch.from_numpy(drawn), translator.spec, leaves)
    for place, action in enumerate(drawn):
        expected = tensors_of(chosen.space, translator.action(action), ACTION)
        expected = {name if name.startswith(ACTION) else f"{ACTION}.{name}": value for name, value in expected.items()}
        assert made.keys() == expected.keys()
        for name, value in expected.items():
            assert made[name].numpy().dtype == leaves[name].dtype
            np.testing.assert_array_equal(made[name][place].numpy(), value.numpy())


def test_images_are_resized_to_the_same_bytes():
    rng = np.random.default_rng(0)
    for space, size in (
        (spaces.Box(0, 255, (210, 160, 3), np.uint8), 84),
        (spaces.Box(0, 255, (40, 60), np.uint8), 84),
        (spaces.Box(-1, 1, (3, 50, 70), np.float32), 33),
        (spaces.Box(0, 1, (2, 40, 40, 3), np.float64), 64),
    ):
        translator = Translator(space, BOX, EnvironmentOptions(image_size=size))
        images = (
            np.stack([space.sample() for _ in range(3)])
            if space.dtype != np.uint8
            else rng.integers(0, 256, (3, *space.shape), np.uint8)
        )
        assert layout_of(space) is not None
        reader = reader_of(space, "observation", EnvironmentOptions(image_size=size))
        found = reader.read(torch.from_numpy(images)).numpy()
        np.testing.assert_array_equal(found, translator.frames(images)[0])
        assert found.shape[-2:] == (size, size)
