import numpy as np
import pytest
from gymnasium import spaces

from mrq import MRQError
from mrq.environments.checks import Misbehaviour
from mrq.environments.options import EnvironmentOptions
from mrq.environments.spaces import Translator
from mrq.interface import Image, Spec

BOX = spaces.Box(-1, 1, (2,), np.float32)
VECTOR = spaces.Box(-np.inf, np.inf, (3,), np.float64)


def test_box_actions_are_rescaled_by_dimension():
    space = spaces.Box(np.array([-0.4, 0, -10], np.float32), np.array([0.4, 5, 30], np.float32))
    translator = Translator(VECTOR, space)
    assert (translator.spec.continuous, translator.spec.choices) == (3, ())
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
    assert (translator.spec.continuous, translator.spec.choices) == (0, (4,))
    action = translator.action(np.array([0, 0, 1, 0], np.float32))
    assert action == start + 2
    assert space.contains(action)


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Box(-np.inf, np.inf, (2,)), "TransformAction"),
        (spaces.Box(np.array([-1, -np.inf], np.float32), np.array([1, 1], np.float32)), "TransformAction"),
        (spaces.Box(-3.4e38, 3.4e38, (1,)), "no usable bounds"),
        (spaces.Box(0, 10**6, (2,), np.int64), "more than 4,096 options.*TransformAction"),
        (spaces.Box(0, 2**62 - 1, (4,), np.int64), "more than 4,096 options"),  # 2**64 together
        (spaces.Box(-(2**63), 2**63 - 1, (1,), np.int64), "more than 4,096 options"),
        (spaces.Box(0, 2**64 - 1, (1,), np.uint64), "more than 4,096 options"),
        (spaces.Discrete(10**9), "1,000,000,000 options, and networks can choose from 65,536.*TransformAction"),
        (spaces.Dict(a=BOX, b=spaces.MultiDiscrete([40_000] * 2)), "80,000 options"),
        (spaces.Text(5), "the action is text.*TransformAction"),
        (spaces.Dict(a=BOX, word=spaces.Text(5)), "the part 'word' of the action is text"),
        (spaces.Tuple([BOX, spaces.Sequence(BOX)]), "the part 1 of the action is a Sequence"),
        (spaces.Box(-1, 1, (0,)), "empty"),
        (spaces.Dict(), "empty"),
    ],
)
def test_actions_that_networks_cannot_choose_are_refused(space, words):
    with pytest.raises(MRQError, match=words):
        Translator(VECTOR, space)


@pytest.mark.parametrize(
    ("space", "continuous", "choices", "action", "expected"),
    [
        (spaces.MultiDiscrete([2, 3]), 0, (2, 3), [0, 1, 1, 0, 0], [1, 0]),
        (spaces.MultiDiscrete([2, 3], start=[5, -1]), 0, (2, 3), [1, 0, 0, 0, 1], [5, 1]),
        (spaces.MultiDiscrete([[2], [3]]), 0, (2, 3), [0, 1, 0, 1, 0], [[1], [1]]),
        (spaces.MultiBinary(2), 0, (2, 2), [0, 1, 1, 0], [1, 0]),
        (spaces.Box(3, 5, (2,), np.int64), 0, (3, 3), [0, 0, 1, 1, 0, 0], [5, 3]),
        (spaces.Box(-3, -1, (), np.int8), 0, (3,), [0, 1, 0], -2),
        (spaces.Box(0, 1, (2,), bool), 0, (2, 2), [0, 1, 1, 0], [1, 0]),
        (spaces.Box(4, 4, (2,), np.int64), 0, (1, 1), [1, 1], [4, 4]),
        (spaces.Box(4, 4, (2,), np.float32), 2, (), [0.3, -1], [4, 4]),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]), 0, (2, 3), [0, 1, 0, 0, 1], (1, 2)),
        (
            spaces.Dict(move=spaces.Box(0, 10, (2,)), tool=spaces.Discrete(3), turn=spaces.Box(-2, 2, (1,))),
            3,
            (3,),
            [-1, 0, 0.5, 0, 0, 1],  # numbers first
            {"move": [0, 5], "tool": 2, "turn": [1]},
        ),
        (
            spaces.Tuple([spaces.Dict(a=spaces.Discrete(2), b=spaces.MultiBinary(1)), spaces.Box(-1, 1, (1,))]),
            1,
            (2, 2),
            [0.25, 1, 0, 0, 1],
            ({"a": 0, "b": [1]}, [0.25]),
        ),
    ],
)
def test_actions_in_parts(space, continuous, choices, action, expected):
    translator = Translator(VECTOR, space)
    assert (translator.spec.continuous, translator.spec.choices) == (continuous, choices)
    made = translator.action(np.array(action, np.float32))
    assert space.contains(made)
    assert repr(plain(made)) == repr(plain(expected))


def plain(action):
    """Returns an action without NumPy's types."""
    if isinstance(action, dict):
        return {key: plain(value) for key, value in action.items()}
    if isinstance(action, tuple):
        return tuple(plain(value) for value in action)
    return np.asarray(action, float).tolist()


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
        (spaces.Box(0, 1, (2, 2), bool), np.array([[True, False], [False, True]]), [1, 0, 0, 1]),
        (spaces.MultiBinary((2, 2)), [[True, False], [False, True]], [1, 0, 0, 1]),
        (spaces.Box(4, 4, (2,), np.float32), np.array([4, 4], np.float32), [4, 4]),
        (spaces.Box(-2, 0, (1, 2), np.int8), np.array([[0, -2]], np.int8), [0, 0, 1, 1, 0, 0]),
        (
            spaces.Dict(a=spaces.Box(0, 255, (0, 84, 84), np.uint8), b=spaces.Dict(), c=BOX),
            {"a": [], "b": {}, "c": [3, 4]},
            [3, 4],
        ),
        (
            spaces.Dict(b=spaces.Tuple([spaces.Dict(c=spaces.Tuple([BOX])), spaces.Discrete(2)])),
            {"b": [{"c": ([3, 4],)}, 1]},
            [3, 4, 0, 1],
        ),
        (spaces.Box(1, 3, (1, 2), np.int64), np.array([[3, 1]]), [0, 0, 1, 1, 0, 0]),  # a grid of symbols
        (spaces.Box(0, 255, (2, 1, 1), np.uint8), np.array([[[7]], [[255]]], np.uint8), [7, 255]),  # of numbers
        (spaces.Dict(a=spaces.Box(0, 1, (0,)), b=spaces.Text(5), c=BOX), {"a": [], "b": "x", "c": [3, 4]}, [3, 4]),
    ],
)
def test_observations_become_vectors(space, observation, vector):
    translator = Translator(space, BOX)
    assert translator.spec.frame_shape == (len(vector),)
    frame = translator.frame(observation)
    assert frame.dtype == np.float32
    assert frame.tolist() == vector


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


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Text(5), "nothing that networks can see; --text N"),
        (spaces.Box(0, 1, (0,)), "nothing that networks can see"),
        (spaces.Sequence(BOX), "the observation is a Sequence.*TransformObservation"),
        (
            spaces.Dict(a=BOX, b=spaces.Tuple([spaces.Graph(BOX, None)])),
            "the part 0 of the part 'b' of the observation is a Graph",
        ),
        (spaces.Box(-np.inf, np.inf, (96, 96, 3)), "have no bounds.*TransformObservation"),
        (
            spaces.Dict(a=spaces.Discrete(10**9)),
            r"the part 'a' of the observation has 1,000,000,000 values.*TransformObservation",
        ),
        (spaces.MultiDiscrete([40_000] * 2), "the observation has 80,000 values"),
    ],
)
def test_observations_that_networks_cannot_see_are_refused(space, words):
    with pytest.raises(MRQError, match=words):
        Translator(space, BOX)


PARTS = spaces.Dict(
    place=BOX,
    inner=spaces.Dict(symbol=spaces.Discrete(3, start=5), pair=spaces.Tuple([spaces.MultiDiscrete([2, 3]), BOX])),
    grid=spaces.Box(1, 3, (2, 2), np.int64),
    bits=spaces.MultiBinary(2),
    word=spaces.Text(3),
)


def parts(**changed):
    """Returns an observation of PARTS in which these are changed."""
    inner = {"symbol": 6, "pair": ([1, 2], np.zeros(2, np.float32))}
    whole = {"place": np.zeros(2, np.float32), "grid": np.ones((2, 2), np.int64), "bits": [0, 1], "word": "a"}
    return whole | {"inner": inner | changed.pop("inner", {})} | changed


@pytest.mark.parametrize(
    ("observation", "words"),
    [
        (
            {name: value for name, value in parts().items() if name != "place"},
            "the observation is not a dict with the keys",
        ),
        (parts(more=1), "the observation is not a dict with the keys place, inner, grid, bits, word"),
        (list(parts().values()), "the observation is not a dict"),
        (None, "the observation is not a dict"),
        ({**parts(), "inner": {"symbol": 6}}, r"'inner' of the observation is not a dict with the keys symbol, pair"),
        (
            parts(inner={"pair": ([1, 2],)}),
            "the part 'pair' of the part 'inner' of the observation is not a tuple of 2 parts",
        ),
        (parts(inner={"pair": np.zeros(2)}), "is not a tuple of 2 parts"),
        (
            parts(inner={"pair": ([1, 3], np.zeros(2))}),
            r"the part 0 of the part 'pair' .* is \[1, 3\], which is not in MultiDiscrete",
        ),
        (parts(inner={"pair": ([[1], [1, 2]], np.zeros(2))}), r"which is not in MultiDiscrete"),
        (
            parts(inner={"symbol": 4}),
            r"'symbol' of the part 'inner' of the observation is 4, which is not in Discrete\(3, start=5\)",
        ),
        (parts(inner={"symbol": 6.0}), "is 6.0, which is not in"),
        (parts(inner={"symbol": None}), "is None, which is not in"),
        (parts(inner={"symbol": np.array([6])}), "which is not in"),
        (parts(place=np.array([0, np.nan], np.float32)), r"'place' of the observation contains NaN"),
        (parts(place=["0", "1"]), r"'place' of the observation is <U1, but its space is float32"),
        (parts(place=np.zeros(2, complex)), r"'place' of the observation is complex128"),
        (parts(place=np.array([0, None])), r"'place' of the observation is object"),
        (parts(place=None), r"'place' of the observation has shape \(\)"),
        (parts(grid=np.full((2, 2), 4)), r"'grid' of the observation contains 4 to 4, outside of Box\(1, 3"),
        (parts(grid=np.ones((2, 2))), r"'grid' of the observation is float64, but its space is int64"),
        (parts(bits=[0, 2]), r"'bits' of the observation is .*, which is not in MultiBinary"),
        (parts(word=7), r"'word' of the observation is 7, which is not text"),
        (parts(word=None), r"'word' of the observation is None, which is not text"),
    ],
)
def test_parts_that_do_not_fit_are_refused_by_name(observation, words):
    translator = Translator(PARTS, BOX, EnvironmentOptions(text=1))
    assert translator.frame(parts()).shape == translator.spec.frame_shape
    with pytest.raises(Misbehaviour, match=words):
        translator.frame(observation)
    with pytest.raises(Misbehaviour, match=words):
        translator.frames(observation)


def test_texts_are_left_out_with_a_remark_or_encoded_by_character():
    space = spaces.Dict(mission=spaces.Text(9), x=BOX)
    observation = {"mission": "b~?", "x": np.array([3, 4], np.float32)}
    translator = Translator(space, BOX)
    assert translator.remarks == [
        "the part 'mission' of the observation is text and is left out; --text N shows agents its first N characters"
    ]
    assert translator.frame(observation).tolist() == [3, 4]
    translator = Translator(space, BOX, EnvironmentOptions(text=2))
    assert not translator.remarks
    frame = translator.frame(observation)
    assert np.flatnonzero(frame[:-2]).tolist() == [ord("b") - 32, 95 + ord("~") - 32]  # the 95 of ASCII, per character
    assert frame[-2:].tolist() == [3, 4]


def test_the_action_before_is_part_of_what_agents_see():
    translator = Translator(BOX, spaces.Discrete(2), EnvironmentOptions(action_history=True, history=3))
    assert translator.spec.frame_shape == (4,)
    assert translator.spec.history == 3
    first = np.array([5, 6], np.float32)
    assert translator.frame(first).tolist() == [5, 6, 0, 0]
    assert translator.frame(first, np.array([0, 1], np.float32)).tolist() == [5, 6, 0, 1]


def test_images_and_numbers_share_a_row_of_bytes():
    space = spaces.Dict(
        camera=spaces.Box(0, 255, (40, 32, 3), np.uint8), x=BOX, map=spaces.Box(0, 255, (64, 64), np.uint8)
    )
    translator = Translator(space, spaces.Discrete(3), EnvironmentOptions(image_size=32), masked=True)
    assert translator.spec == Spec((Image(3, 32, 32), Image(1, 32, 32)), 2, 4, choices=(3,), masked=True)
    observation = {
        "camera": np.full((40, 32, 3), (1, 2, 3), np.uint8),
        "x": np.array([0.5, -2], np.float32),
        "map": np.full((64, 64), 9, np.uint8),
    }
    frame = translator.frame(observation, mask=translator.mask(np.array([0, 1, 1], np.int8)))
    numbers, images = frame[:20].view(np.float32), frame[20:]
    assert numbers.tolist() == [0.5, -2, 0, 1, 1]
    assert images[:4096].reshape(4, 1024).std(1).tolist() == [0, 0, 0, 0]
    assert images[:4096:1024].tolist() == [1, 2, 3, 9]
    assert len(frame) == 4120  # whole words of eight bytes
    assert not images[4096:].any()


def test_several_images_need_no_numbers_beside_them():
    image = spaces.Box(0, 255, (32, 32), np.uint8)
    translator = Translator(spaces.Tuple([image, image]), BOX, EnvironmentOptions(image_size=32))
    assert translator.spec == Spec((Image(1, 32, 32),) * 2, 0, 4, continuous=2)
    frame = translator.frame((np.full((32, 32), 5, np.uint8), np.full((32, 32), 6, np.uint8)))
    assert frame.tolist() == [5] * 1024 + [6] * 1024


@pytest.mark.parametrize(
    ("space", "mask", "allowed"),
    [
        (spaces.Discrete(3), np.array([1, 0, 1], np.int8), [1, 0, 1]),
        (spaces.Discrete(3), [False, True, True], [0, 1, 1]),
        (spaces.Discrete(3), np.zeros(3, np.int8), [1, 1, 1]),  # nothing is left to do: the game is over
        (spaces.MultiDiscrete([2, 3]), np.array([0, 1, 1, 1, 0]), [0, 1, 1, 1, 0]),
        (spaces.MultiDiscrete([2, 3]), (np.array([0, 1]), np.array([1, 0, 0])), [0, 1, 1, 0, 0]),
        (spaces.MultiDiscrete([2, 3]), [[0, 1], [0, 0, 0]], [0, 1, 1, 1, 1]),  # one of the choices is over
        (spaces.MultiDiscrete([2, 3]), [False, True, True, False, False], [0, 1, 1, 0, 0]),
        (spaces.MultiDiscrete([[2], [3]]), np.array([1.0, 0, 0, 0, 1]), [1, 0, 0, 0, 1]),
        (spaces.Discrete(2, start=7), (1, 0), [1, 0]),
        (spaces.Discrete(2), None, None),
    ],
)
def test_masks(space, mask, allowed):
    found = Translator(BOX, space, masked=True).mask(mask)
    assert (found if found is None else found.tolist()) == allowed


@pytest.mark.parametrize(
    ("space", "mask", "words"),
    [
        (spaces.Discrete(3), np.ones(4), r"does not fit Discrete\(3\)"),
        (spaces.Discrete(3), np.ones((1, 3)), "does not fit"),
        (spaces.Discrete(3), "all", "does not fit"),
        (spaces.Discrete(3), 1, "does not fit"),
        (spaces.Discrete(3), {"left": 1}, "does not fit"),
        (spaces.Discrete(3), [[1, 0], [1]], "does not fit"),
        (spaces.MultiDiscrete([2, 3]), np.ones(6), "does not fit"),
        (spaces.MultiDiscrete([2, 3]), (np.ones(3), np.ones(2)), "does not fit"),  # five together as well
        (spaces.MultiDiscrete([2, 3]), (np.ones(2), None), "does not fit"),
        (spaces.Discrete(3), np.array([0.5, None, {}], object), "other values than 0 and 1"),
        (spaces.Discrete(3), np.array(["1", "0", "1"]), "other values than 0 and 1"),
        (spaces.Discrete(3), [0, np.nan, 1], "other values than 0 and 1"),
        (spaces.Discrete(3), [0, -np.inf, 0], "other values than 0 and 1"),  # to be added to logits
    ],
)
def test_masks_that_do_not_fit_are_refused(space, mask, words):
    with pytest.raises(Misbehaviour, match=f"the action mask .*{words}"):
        Translator(BOX, space, masked=True).mask(mask)


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
