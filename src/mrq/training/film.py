"""A film of environments, as .mp4 or .gif."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import imageio
import numpy as np

from mrq.environments.making import Made
from mrq.environments.rendering import advice
from mrq.errors import MRQError, one_line
from mrq.files import ASIDE, open_new, remove
from mrq.interface import Array

LONGEST_FILM = 1_000  # frames
FORMATS = (".mp4", ".gif")
MOST_FRAMES_PER_SECOND = 1_000


def rendered() -> dict[str, Any]:
    """Returns the options of an environment that is to be filmed."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame need not look for a screen
    return {"render_mode": "rgb_array"}


class Film:
    """A video file to which pictures of environments are added. It is written aside, and replaces what was there."""

    def __init__(self, path: Path) -> None:
        self.path, self.frames = path, 0
        self._aside = path.with_name(f".{path.stem}{ASIDE}{path.suffix}")
        self._writer: Any = None
        self._shape: tuple[int, ...] | None = None  # of its pictures

    def take(self, environments: Sequence[Made]) -> None:
        """Adds a picture, of all environments side by side."""
        if self.frames == LONGEST_FILM:
            return
        pictures = [_picture(environment) for environment in environments]
        with self._writing():
            picture = np.concatenate(pictures, axis=1)
            if self._shape not in (None, picture.shape):
                raise ValueError("the environment's pictures differ in size")
            self._shape = picture.shape
            if self._writer is None:
                open_new(self._aside).close()  # finds out whether it may be written before a codec complains at length
                self._writer = imageio.get_writer(self._aside, **self._options(environments[0]))
            self._writer.append_data(picture)
        self.frames += 1

    def close(self, complete: bool) -> None:
        """Finishes the file, or removes what there is of it."""
        with self._writing():
            if self._writer is not None:
                self._writer.close()
            if complete:
                self._aside.replace(self.path)
            else:
                remove(self._aside)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            with suppress(OSError):
                remove(self._aside)
            reason = error.strerror if isinstance(error, OSError) and error.strerror else one_line(error)
            raise MRQError(f"the video {self.path} could not be written: {reason.rstrip('.')}.") from error

    def _options(self, environment: Made) -> dict[str, Any]:
        rate = float(environment.metadata.get("render_fps") or 30)
        if not 0 < rate < MOST_FRAMES_PER_SECOND:
            raise ValueError(f"its environment has {rate:g} frames per second")
        if self.path.suffix == ".mp4":
            return {"fps": rate, "macro_block_size": 2}
        return {"duration": 1000 / rate, "loop": 0}


def _picture(environment: Made) -> Array:
    picture: Any
    try:
        picture = environment.render()
    except (Exception, SystemExit) as error:
        of_mujoco = hasattr(environment.unwrapped, "mujoco_renderer")
        what = advice(error) if of_mujoco else f"{one_line(error)}."
        raise MRQError(f"the environment cannot be filmed: {what}") from error
    is_picture = isinstance(picture, np.ndarray) and picture.dtype == np.uint8 and picture.ndim == 3
    if not is_picture or picture.shape[2] not in (1, 3, 4):
        raise MRQError("the environment cannot be filmed: its render() does not return a picture for rgb_array.")
    even: Array = picture[: picture.shape[0] // 2 * 2, : picture.shape[1] // 2 * 2]  # the MP4 codec needs even sides
    return even
