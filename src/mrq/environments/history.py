"""The latest frames of every environment: what an agent sees."""

import numpy as np

from mrq.interface import Array, Spec


class FrameHistory:
    """The latest frames of every environment, oldest first. They are updated in place."""

    def __init__(self, frames: Array) -> None:
        self.frames = frames  # (count, history, *frame_shape), in memory that the caller chose

    def begin(self, which: Array, frames: Array) -> None:
        """Begins an episode where `which` (count,) is true, by repeating its first frame (count, *frame_shape)."""
        self.frames[which] = frames[which][:, None]

    def append(self, frames: Array) -> None:
        """Appends every environment's next frame (count, *frame_shape), and forgets its oldest one."""
        self.frames[:, :-1] = self.frames[:, 1:]
        self.frames[:, -1] = frames


def empty_history(count: int, spec: Spec) -> FrameHistory:
    """Returns a history of zeros for `count` environments."""
    return FrameHistory(np.zeros((count, spec.history, *spec.frame_shape), spec.frame_dtype))
