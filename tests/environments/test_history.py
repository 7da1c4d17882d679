import numpy as np

from mrq.environments.history import FrameHistory, empty_history
from mrq.interface import Image, Spec

IMAGES = Spec((Image(1, 84, 84),), history=4, choices=(6,))
VECTORS = Spec(numbers=3, continuous=2)


def numbers(*values):
    """Returns frames of one number each (count, 1)."""
    return np.array(values, np.float32)[:, None]


def test_an_episode_begins_with_its_first_frame_repeated_and_then_moves_on():
    memory = np.zeros((2, 3, 1), np.float32)
    history = FrameHistory(memory)
    history.begin(np.array([True, True]), numbers(1, 10))
    assert memory[..., 0].tolist() == [[1, 1, 1], [10, 10, 10]]
    history.append(numbers(2, 20))
    history.append(numbers(3, 30))
    assert memory[..., 0].tolist() == [[1, 2, 3], [10, 20, 30]]
    history.begin(np.array([False, True]), numbers(7, 8))
    assert memory[..., 0].tolist() == [[1, 2, 3], [8, 8, 8]]
    history.append(numbers(4, 9))
    assert history.frames[..., 0].tolist() == [[2, 3, 4], [8, 8, 9]]
    assert history.frames is memory


def test_without_stacking_an_agent_sees_the_latest_frame():
    history = empty_history(2, VECTORS)
    assert history.frames.shape == (2, 1, 3)
    assert history.frames.dtype == np.float32
    history.begin(np.array([True, False]), np.array([[1, 2, 3], [4, 5, 6]], np.float32))
    assert history.frames.tolist() == [[[1, 2, 3]], [[0, 0, 0]]]
    history.append(np.array([[7, 8, 9], [4, 5, 6]], np.float32))
    assert history.frames.tolist() == [[[7, 8, 9]], [[4, 5, 6]]]


def test_images_stay_bytes():
    history = empty_history(5, IMAGES)
    assert history.frames.shape == (5, 4, 1, 84, 84)
    assert history.frames.dtype == np.uint8
