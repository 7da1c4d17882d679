"""Films of environments whose pictures cannot be filmed: one sentence, and an earlier film stays."""

from functools import partial

import imageio
import numpy as np
import pytest

from mrq import MRQ, MRQError
from mrq.training.playing import play
from tests.environments_for_tests import Counting


class Filmed(Counting):
    """Counts, and shows a picture of some shape, type and rate."""

    def __init__(self, picture=None, rate=30):
        super().__init__()
        self.render_mode, self.metadata = "rgb_array", {"render_modes": ["rgb_array"], "render_fps": rate}
        self._picture, self._pictures = picture or (lambda count: np.zeros((8, 8, 3), np.uint8)), 0

    def render(self):
        self._pictures += 1
        return self._picture(self._pictures)


def _exit(count):
    raise SystemExit(0)


BAD = {
    "growing": (partial(Filmed, lambda count: np.zeros((8 + 2 * count, 8, 3), np.uint8)), "could not be written"),
    "floats": (partial(Filmed, lambda count: np.zeros((8, 8, 3))), "does not return a picture"),
    "channels": (partial(Filmed, lambda count: np.zeros((8, 8, 5), np.uint8)), "does not return a picture"),
    "exits": (partial(Filmed, _exit), "cannot be filmed"),
    "backwards": (partial(Filmed, rate=-1), "could not be written: ValueError: .* -1 frames per second"),
    "nan": (partial(Filmed, rate=float("nan")), "could not be written"),
    "word": (partial(Filmed, rate="fast"), "could not be written"),
}


def good(**options):
    return Filmed()


@pytest.fixture
def run(small, tmp_path):
    agent = MRQ(good, task="tests.training.test_filming:good", hyperparameters=small, device="cpu")
    agent.learn(20)
    agent.save(tmp_path / "run")
    return tmp_path / "run"


def film(run, to, environment, **options):
    named = f"tests.training.test_filming:{environment}"
    return play(run, 1, True, to, "cpu", lambda line: None, environment=named, **options)


@pytest.mark.parametrize("suffix", [".gif", ".mp4"])
def test_what_cannot_be_filmed_gets_a_sentence_and_leaves_an_earlier_film(run, tmp_path, suffix, monkeypatch):
    to = tmp_path / f"film{suffix}"
    film(run, to, "good")
    before = to.read_bytes()
    for name, (make, sentence) in BAD.items():
        monkeypatch.setitem(globals(), "bad", lambda make=make, **options: make())
        with pytest.raises(MRQError, match=sentence):
            film(run, to, "bad")
        assert to.read_bytes() == before, name
        assert sorted(path.name for path in tmp_path.iterdir()) == [to.name, "run"], name


def test_films_side_by_side_need_pictures_of_one_height(run, tmp_path, monkeypatch):
    heights = iter([8, 10] * 100)

    def differing(**options):
        height = next(heights)
        return Filmed(lambda count: np.zeros((height, 8, 3), np.uint8))

    monkeypatch.setitem(globals(), "bad", differing)
    with pytest.raises(MRQError, match="could not be written"):
        film(run, tmp_path / "film.gif", "bad", beside_untrained=True)
    film(run, tmp_path / "film.gif", "good", beside_untrained=True)
    assert imageio.mimread(tmp_path / "film.gif")[0].shape[:2] == (8, 16)


def test_a_function_that_returns_one_environment_again_is_refused(run, monkeypatch):
    one = Filmed()
    monkeypatch.setitem(globals(), "bad", lambda **options: one)
    with pytest.raises(MRQError, match="must make a new one at every call"):
        play(run, 2, True, None, "cpu", environment="tests.training.test_filming:bad")
