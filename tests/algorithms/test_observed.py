"""The parts of states and the masks in them, against rows of bytes that are put together by hand."""

import numpy as np
import pytest
import torch

from mrq.algorithms.observed import allowed_actions, observed
from mrq.interface import Image, Spec

TWO_IMAGES = Spec((Image(3, 2, 2), Image(1, 1, 3)), numbers=2, history=3, continuous=1, choices=(2, 3), masked=True)
MASKS = [[[1, 0, 1, 1, 1], [0, 1, 1, 1, 1], [0, 1, 0, 0, 1]], [[1, 1, 1, 1, 1], [1, 0, 1, 0, 0], [1, 1, 1, 0, 1]]]


def packed_frame(numbers, mask, images):
    """Writes a frame as environments do: numbers, mask, images, and zeros up to a whole word of eight bytes."""
    row = np.array([*numbers, *mask], "<f4").tobytes() + b"".join(image.tobytes() for image in images)
    return np.frombuffer(row + bytes(-len(row) % 8), np.uint8)


def states_of(frames):
    """Stacks frames (batch, history, *frame_shape) along a frame's first axis."""
    array = np.array(frames)
    return torch.from_numpy(array.reshape(len(array), -1, *array.shape[3:]))


def test_packed_frames_are_taken_apart_and_stacked_part_by_part():
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(2, 3, 2)).astype(np.float32)
    first, second = rng.integers(0, 256, (2, 3, 3, 2, 2), np.uint8), rng.integers(0, 256, (2, 3, 1, 1, 3), np.uint8)
    frames = [
        [
            packed_frame(numbers[batch, step], MASKS[batch][step], (first[batch, step], second[batch, step]))
            for step in range(3)
        ]
        for batch in range(2)
    ]
    states = states_of(frames)
    assert states.shape == (2, *TWO_IMAGES.state_shape)
    parts = observed(states, TWO_IMAGES)
    np.testing.assert_array_equal(parts.images[0], first.reshape(2, 9, 2, 2))
    np.testing.assert_array_equal(parts.images[1], second.reshape(2, 3, 1, 3))
    for batch in range(2):  # the history of a number stands together
        expected = [numbers[batch, step, place] for place in range(2) for step in range(3)]
        assert parts.numbers[batch].tolist() == expected
    own = torch.ones(6, dtype=torch.bool)
    assert allowed_actions(states, TWO_IMAGES, own).int().tolist() == [
        [1, 0, 1, 0, 0, 1],  # the number, then the latest frame's mask
        [1, 1, 1, 1, 0, 1],
    ]


def test_a_mask_beside_an_image_is_not_shown():
    spec = Spec((Image(1, 2, 2),), choices=(2,), masked=True)
    states = states_of([[packed_frame([], [1, 0], [np.full((1, 2, 2), 7, np.uint8)])]])
    parts = observed(states, spec)
    assert parts.numbers is None
    assert parts.images[0].tolist() == [[[[7, 7], [7, 7]]]]
    assert allowed_actions(states, spec, torch.ones(2, dtype=torch.bool)).tolist() == [[True, False]]


def test_vectors_with_masks():
    spec = Spec(numbers=2, history=2, choices=(3,), masked=True)
    states = states_of([[[1.0, 2, 1, 1, 0], [3, 4, 0, 1, 1]], [[5, 6, 0, 0, 1], [7, 8, 1, 0, 0]]])
    assert observed(states, spec).numbers.tolist() == [[1, 3, 2, 4], [5, 7, 6, 8]]
    own = torch.ones(3, dtype=torch.bool)
    assert allowed_actions(states, spec, own).tolist() == [[False, True, True], [True, False, False]]


def test_without_masks_an_agents_own_actions_are_allowed_in_all_states():
    own = torch.tensor([True, True, False])
    assert allowed_actions(torch.zeros(4, 2), Spec(numbers=2, choices=(3,)), own) is own


def test_single_parts_are_shown_as_they_are():
    image = Spec((Image(3, 2, 2),), history=2)
    states = torch.arange(24, dtype=torch.uint8).view(1, 6, 2, 2)
    assert observed(states, image).images[0] is states
    assert observed(states, image).numbers is None
    vectors = torch.randn(5, 4)
    assert torch.equal(observed(vectors, Spec(numbers=4)).numbers, vectors)


@pytest.mark.parametrize("history", [1, 3])
def test_a_fleets_padding_stands_at_the_end(history):
    """So an agent's first weights are the same, alone and in a fleet with larger observations."""
    small, large = Spec(numbers=2, history=history), Spec(numbers=4, history=history)
    frames = torch.randn(5, history, 2)
    padded = torch.nn.functional.pad(frames, (0, 2))
    alone = observed(frames.flatten(1), small).numbers
    together = observed(padded.flatten(1), large).numbers
    assert torch.equal(together[:, : 2 * history], alone)
    assert not together[:, 2 * history :].any()
