"""Images of any size, dtype and layout, against the average over each new pixel's area, found in another way."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from mrq.environments.checks import Misbehaviour
from mrq.environments.images import image_reader, layout_of
from mrq.environments.options import EnvironmentOptions
from mrq.environments.spaces import Translator

BOX = spaces.Box(-1, 1, (2,), np.float32)


def pixels(shape, dtype=np.uint8, high=255):
    return spaces.Box(0, high, shape, dtype)


def averaged(channel, size):
    """Averages (height, width) over the area of each of size x size pixels: what the integral gains there, per area."""
    for _ in range(2):
        old = len(channel)
        edges = np.linspace(0, old, size + 1)
        integrals = np.concatenate([np.zeros((1, channel.shape[1])), channel.astype(float).cumsum(0)])
        at_edges = np.stack([np.interp(edges, np.arange(old + 1), line) for line in integrals.T])
        channel = np.diff(at_edges) * size / old  # and the other axis first
    return channel


@pytest.mark.parametrize(
    ("shape", "channels", "history"),
    [
        ((84, 84), 1, 4),
        ((84, 84, 1), 1, 4),
        ((84, 84, 3), 3, 3),
        ((3, 84, 84), 3, 3),
        ((4, 84, 84), 4, 1),
        ((4, 84, 84, 3), 12, 1),  # a stack of RGB frames
        ((2, 3, 84, 84), 6, 1),
        ((4, 84, 84, 1), 4, 1),
    ],
)
def test_images_of_the_papers_size_are_unchanged(shape, channels, history):
    translator = Translator(pixels(shape), BOX)
    assert translator.spec.frame_shape == (channels, 84, 84)
    assert translator.spec.history == history
    assert not translator.remarks
    image = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    whole = image if image.ndim == 4 else image[None]
    if whole.ndim == 3:
        whole = whole[:, None]
    elif whole.shape[-1] != 84:
        whole = whole.transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(translator.frame(image), whole.reshape(channels, 84, 84))


LAYOUTS = {  # from (frames, channels, height, width)
    "grey": lambda frames: frames[0, 0],
    "channels first": lambda frames: frames[0],
    "channels last": lambda frames: frames[0].transpose(1, 2, 0),
    "stacked, channels first": lambda frames: frames,
    "stacked, channels last": lambda frames: frames.transpose(0, 2, 3, 1),
}


@settings(deadline=None, max_examples=60)
@given(
    st.integers(32, 130),
    st.integers(32, 130),
    st.sampled_from([32, 48, 84, 101]),
    st.sampled_from(list(LAYOUTS)),
    st.sampled_from(
        [(np.uint8, 0, 255), (np.uint8, 0, 9), (np.int64, 0, 255), (np.float32, 0, 1), (np.float64, -3, 5)]
    ),
    st.integers(0, 2**32 - 1),
)
def test_resized_images_are_averages_over_areas(height, width, size, layout, values, seed):
    dtype, low, high = values
    frames = np.random.default_rng(seed).uniform(low, high, (2, 3, height, width)).astype(dtype)
    image = LAYOUTS[layout](frames)
    space = spaces.Box(low, high, image.shape, dtype)
    found = layout_of(space)
    assert found is not None
    described, read = image_reader(space, found, size)
    result = read(image, "an image")
    assert result.shape == tuple(described)
    assert result.dtype == np.uint8
    shown = frames.reshape(6, height, width)[: len(result)]
    for channel, expected in zip(result, shown, strict=True):
        levels = (averaged(expected, size) - low) * 255 / (high - low)
        assert np.abs(channel - levels).max() <= 0.5 + 1e-3


def test_constant_images_stay_constant_and_edges_stay_sharp_where_sizes_divide():
    space = pixels((168, 168))
    _, read = image_reader(space, layout_of(space), 84)
    assert (read(np.full((168, 168), 255, np.uint8), "an image") == 255).all()
    half = np.zeros((168, 168), np.uint8)
    half[:, 80:] = 200
    assert read(half, "an image")[0, 0].tolist() == [0] * 40 + [200] * 44
    space = pixels((42, 42))
    _, read = image_reader(space, layout_of(space), 84)
    small = np.random.default_rng(0).integers(0, 256, (42, 42), dtype=np.uint8)
    np.testing.assert_array_equal(read(small, "an image")[0], small.repeat(2, 0).repeat(2, 1))


@pytest.mark.parametrize(
    ("space", "value", "seen"),
    [
        (pixels((32, 32), np.float32, 1), 0.2, 51),
        (pixels((32, 32), np.float64, 255), 51.4, 51),
        (spaces.Box(-1, 1, (32, 32, 3), np.float32), 0.0, 128),
        (pixels((32, 32), np.uint8, 1), 1, 255),
        (pixels((32, 32), np.int64), 7, 7),
        (spaces.Box(0, 10, (32, 32), np.uint16), 10, 255),
    ],
)
def test_values_are_scaled_from_the_spaces_bounds(space, value, seen):
    translator = Translator(space, BOX, EnvironmentOptions(image_size=32))
    frame = translator.frame(np.full(space.shape, value, space.dtype))
    assert (frame == seen).all()


def test_each_pixel_is_scaled_from_its_own_bounds():
    options = EnvironmentOptions(image_size=32)
    high = np.ones((32, 32, 4), np.float32)
    high[..., 3] = 1000  # the depth beside a colour
    translator = Translator(spaces.Box(np.zeros_like(high), high), BOX, options)
    image = np.full((32, 32, 4), 0.2, np.float32)
    image[..., 3] = 500
    frame = translator.frame(image)
    assert frame.dtype == np.uint8
    assert [np.unique(channel).tolist() for channel in frame] == [[51], [51], [51], [128]]
    image[0, 0, 0] = 500
    with pytest.raises(Misbehaviour, match="contains 500, far outside of its space's 0 to 1"):
        translator.frame(image)
    high = np.ones((32, 32), np.float32)
    high[:, 0] = 1e4
    frame = Translator(spaces.Box(-high, high), BOX, options).frame(0.6 * high)
    assert (frame == 204).all()


def test_values_slightly_beyond_the_bounds_are_clipped():
    translator = Translator(pixels((32, 32), np.float32, 1), BOX, EnvironmentOptions(image_size=32))
    image = np.zeros((32, 32), np.float32)
    image[0] = 1.5
    image[1] = -0.5
    assert translator.frame(image)[0, :3, 0].tolist() == [255, 0, 0]
    bytes_and_more = Translator(pixels((32, 32)), BOX, EnvironmentOptions(image_size=32))
    assert (bytes_and_more.frame(np.full((32, 32), 300, np.uint16)) == 255).all()


@pytest.mark.parametrize(
    ("space", "image", "words"),
    [
        (pixels((32, 32), np.float32, 1), np.full((32, 32), 200, np.uint8), "contains 200, far outside of .* 0 to 1"),
        (spaces.Box(-1, 1, (32, 32), np.float32), np.full((32, 32), -9.5), "contains -9.5, far outside of .* -1 to 1"),
        (pixels((32, 32)), np.full((32, 32), 900, np.uint16), "contains 900, far outside of .* 0 to 255"),
        (pixels((32, 32), np.float32, 1), np.full((32, 32), np.nan), "contains NaN"),
        (pixels((32, 32), np.float32, 1), np.full((32, 32), -np.inf), "infinite"),
        (pixels((32, 32)), np.zeros((32, 32), np.float32), "float32, but its space is uint8"),
        (pixels((32, 32)), np.zeros((32, 32), np.int64), "int64, but its space is uint8"),
        (pixels((32, 32)), np.zeros((32, 31), np.uint8), r"shape \(32, 31\)"),
        (pixels((32, 32)), None, "shape"),
    ],
)
def test_images_that_are_not_what_their_space_says_are_refused(space, image, words):
    translator = Translator(spaces.Dict(camera=space), BOX)
    with pytest.raises(Misbehaviour, match=f"the part 'camera' of the observation .*{words}"):
        translator.frame({"camera": image})


def test_an_image_whose_bounds_are_equal_is_black():
    translator = Translator(spaces.Box(3, 3, (32, 32), np.float32), BOX, EnvironmentOptions(image_size=32))
    assert not translator.frame(np.full((32, 32), 3, np.float32)).any()


def test_resizing_is_said_once_with_the_option_that_changes_it():
    translator = Translator(pixels((210, 160, 3)), BOX)
    assert translator.remarks == [
        "the observation has 160x210 pixels, which are resized to 84x84; --image-size chooses another size"
    ]
    assert Translator(pixels((210, 160, 3)), BOX, EnvironmentOptions(image_size=64)).spec.frame_shape == (3, 64, 64)


@pytest.mark.parametrize(
    "space",
    [
        pixels((7, 7, 3)),  # MiniGrid
        pixels((10, 10, 4), bool, 1),  # MinAtar
        pixels((4, 4), np.int64, 17),  # 2048
        spaces.Box(-np.inf, np.inf, (2, 11, 11), np.float32),  # highway's grids
        spaces.Box(-np.inf, np.inf, (40, 40), np.float32),
        pixels((128,)),  # Atari's memory
        pixels((0, 84, 84)),
        pixels((84, 84, 0)),
        pixels((0, 84, 84, 3)),
    ],
)
def test_small_grids_and_unbounded_arrays_are_not_images(space):
    assert layout_of(space) is None
