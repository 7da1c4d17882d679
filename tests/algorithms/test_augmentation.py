import numpy as np
import torch

from mrq.algorithms.augmentation import PADDING, shift


def test_shift_is_pad_and_crop():
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (5, 3, 84, 84), dtype=np.uint8)
    offsets = np.array([[0, 0], [4, 4], [8, 8], [1, 7], [6, 2]])
    shifted = shift(torch.from_numpy(images), torch.from_numpy(offsets)).numpy()
    assert shifted.dtype == np.uint8
    for image, (row, column), result in zip(images, offsets, shifted, strict=True):
        padded = np.pad(image, ((0, 0), (PADDING, PADDING), (PADDING, PADDING)), mode="edge")
        np.testing.assert_array_equal(result, padded[:, row : row + 84, column : column + 84])


def test_the_middle_offset_changes_nothing():
    images = torch.randint(0, 256, (2, 1, 84, 84), dtype=torch.uint8)
    assert torch.equal(shift(images, torch.full((2, 2), PADDING)), images)
