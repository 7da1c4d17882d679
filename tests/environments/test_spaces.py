import numpy as np
import pytest
from gymnasium import spaces

from mrq import MRQError
from mrq.environments.spaces import Misbehaviour, Translator

BOX = spaces.Box(-1, 1, (2,), np.float32)
VECTOR = spaces.Box(-np.inf, np.inf, (3,), np.float64)


def test_box_actions_are_rescaled_by_dimension():
    space = spaces.Box(np.array([-0.4, 0, -10], np.float32), np.array([0.4, 5, 30], np.float32))
    translator = Translator(VECTOR, space)
    assert (translator.spec.action_size, translator.spec.discrete) == (3, False)
    for network, environment in [(-1, space.low), (1, space.high), (0, [0, 2.5, 10]), (0.5, [0.2, 3.75, 20])]:
        action = translator.action(np.full(3, network, np.float32))
        np.testing.assert_allclose(action, environment, rtol=1e-6, atol=1e-7)
        assert space.contains(action)


def test_box_actions_keep_their_shape():
    space = spaces.Box(-2, 2, (2, 3), np.float64)
    action = Translator(VECTOR, space).action(np.linspace(-1, 1, 6, dtype=np.float32))
    assert action.shape == (2, 3)
    assert action.dtype == np.float64
    assert action[1, 2] == 2


@pytest.mark.parametrize("start", [0, -3, 7])
def test_discrete_actions_with_any_start(start):
    space = spaces.Discrete(4, start=start)
    translator = Translator(VECTOR, space)
    assert (translator.spec.action_size, translator.spec.discrete) == (4, True)
    action = translator.action(np.array([0, 0, 1, 0], np.float32))
    assert action == start + 2
    assert space.contains(action)


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Box(-np.inf, np.inf, (2,)), "TransformAction"),
        (spaces.Box(np.array([-1, -np.inf], np.float32), np.array([1, 1], np.float32)), "TransformAction"),
        (spaces.Box(-3.4e38, 3.4e38, (1,)), "no usable bounds"),
        (spaces.MultiDiscrete([2, 3]), "MultiDiscrete"),
        (spaces.MultiBinary(3), "MultiBinary"),
        (spaces.Dict(a=BOX), "Dict"),
        (spaces.Box(0, 5, (2,), np.int64), "Box"),
        (spaces.Box(-1, 1, (0,)), "empty"),
    ],
)
def test_action_spaces_that_are_not_supported_are_named(space, words):
    with pytest.raises(MRQError, match=words):
        Translator(VECTOR, space)


@pytest.mark.parametrize(
    ("space", "observation", "vector"),
    [
        (VECTOR, np.array([1.0, 2, 3]), [1, 2, 3]),
        (spaces.Box(0, 255, (3,), np.uint8), np.array([0, 7, 255], np.uint8), [0, 7, 255]),
        (spaces.Box(-5, 5, (2,), np.int64), np.array([-5, 3]), [-5, 3]),
        (spaces.Box(-1, 1, (2, 2), np.float32), np.array([[1, 2], [3, 4]], np.float32), [1, 2, 3, 4]),
        (spaces.Box(-1, 1, (), np.float32), np.float32(0.5), [0.5]),
        (spaces.Discrete(4, start=-1), 1, [0, 0, 1, 0]),
        (spaces.MultiBinary(3), np.array([1, 0, 1], np.int8), [1, 0, 1]),
        (spaces.MultiDiscrete([2, 3]), np.array([1, 2]), [0, 1, 0, 0, 1]),
        (spaces.Tuple((spaces.Discrete(2), BOX)), (1, np.array([3, 4], np.float32)), [0, 1, 3, 4]),
        (
            spaces.Dict(goal=BOX, place=spaces.Discrete(2)),
            {"place": 0, "goal": np.array([3, 4], np.float32)},
            [3, 4, 1, 0],
        ),
    ],
)
def test_observations_become_vectors(space, observation, vector):
    translator = Translator(space, BOX)
    assert translator.spec.frame_shape == (len(vector),)
    frame = translator.frame(observation)
    assert frame.dtype == np.float32
    assert frame.tolist() == vector


@pytest.mark.parametrize(
    ("shape", "frame_shape", "history"),
    [
        ((84, 84), (1, 84, 84), 4),
        ((84, 84, 1), (1, 84, 84), 4),
        ((84, 84, 3), (3, 84, 84), 3),
        ((3, 84, 84), (3, 84, 84), 3),
        ((4, 84, 84), (4, 84, 84), 1),
    ],
)
def test_images(shape, frame_shape, history):
    translator = Translator(spaces.Box(0, 255, shape, np.uint8), BOX)
    assert translator.spec.frame_shape == frame_shape
    assert translator.spec.history == history
    image = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    frame = translator.frame(image)
    assert frame.shape == frame_shape
    channel = image if image.ndim == 2 else image[..., 0] if shape[0] == 84 else image[0]
    np.testing.assert_array_equal(frame[0], channel)


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Box(0, 255, (210, 160, 3), np.uint8), "84x84, not 210x160x3.*ResizeObservation"),
        (spaces.Box(0, 255, (64, 64), np.uint8), "84x84, not 64x64"),
        (spaces.Box(0, 1, (84, 84, 3), np.float32), "uint8, not float32"),
        (spaces.Box(0, 1, (84, 84), np.float32), "uint8, not float32"),
        (spaces.Text(5), "Text"),
        (spaces.Sequence(BOX), "Sequence"),
        (spaces.Dict(camera=spaces.Box(0, 255, (84, 84, 3), np.uint8), x=BOX), "not supported yet"),
    ],
)
def test_observation_spaces_that_are_not_supported_are_named(space, words):
    with pytest.raises(MRQError, match=words):
        Translator(space, BOX)


@pytest.mark.parametrize(
    ("observation", "words"),
    [
        (np.array([np.nan, 0, 0]), "NaN"),
        (np.array([np.inf, 0, 0]), "infinite or too large"),
        (np.array([1e300, 0, 0]), "too large for float32"),
        (np.zeros(4), r"shape \(4,\), but its space has \(3,\)"),
        (np.array(["a", "b", "c"]), "<U1, but its space is float64"),
        (np.array([1j, 0, 0]), "complex128"),
        (None, "shape"),
        ([[1], [1, 2]], "cannot be read as numbers"),
    ],
)
def test_wrong_observations_are_refused(observation, words):
    with pytest.raises(Misbehaviour, match=words):
        Translator(VECTOR, BOX).frame(observation)


def test_integer_boxes_refuse_floats_and_images_refuse_floats():
    with pytest.raises(Misbehaviour, match="float64, but its space is int64"):
        Translator(spaces.Box(0, 9, (1,), np.int64), BOX).frame(np.array([0.5]))
    with pytest.raises(Misbehaviour, match="float32, but its space is uint8"):
        Translator(spaces.Box(0, 255, (84, 84), np.uint8), BOX).frame(np.zeros((84, 84), np.float32))


def test_batches():
    translator = Translator(VECTOR, BOX)
    frames, batched = translator.frames(np.arange(6.0).reshape(2, 3))
    assert batched
    assert frames.tolist() == [[0, 1, 2], [3, 4, 5]]
    frames, batched = translator.frames(np.arange(3.0))
    assert not batched
    assert frames.shape == (1, 3)
    nested = Translator(spaces.Dict(a=BOX, b=spaces.Discrete(2)), BOX)
    frames, batched = nested.frames({"a": np.zeros((4, 2), np.float32), "b": np.array([0, 1, 1, 0])})
    assert batched
    assert frames[1].tolist() == [0, 0, 0, 1]
    with pytest.raises(Misbehaviour, match="shape"):
        translator.frames(np.zeros((2, 4)))
