"""Measures how long it takes to resize one frame to what the networks see.

python benchmarks/resizing.py
"""

import os
import time

import numpy as np
from gymnasium import spaces

from mrq.environments.images import image_reader, layout_of

SHAPES = ((210, 160, 3), (96, 96, 3), (84, 84, 3))  # Atari, CarRacing, and one that is only laid out anew
SIZE = 84
FRAMES = 10  # in a row
REPEATS = 300  # of which the fastest counts: others may use the machine


def main() -> None:
    print(f"{len(os.sched_getaffinity(0))} cores")
    for shape in SHAPES:
        space = spaces.Box(0, 255, shape, np.uint8)
        layout = layout_of(space)
        assert layout is not None
        _, read = image_reader(space, layout, SIZE)
        image = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
        seconds = []
        for _ in range(REPEATS):
            began = time.perf_counter()
            for _ in range(FRAMES):
                read(image, "the frame")
            seconds.append((time.perf_counter() - began) / FRAMES)
        print(f"{'x'.join(map(str, shape))} to {SIZE}x{SIZE}: {1e6 * min(seconds):.0f} us per frame")


if __name__ == "__main__":
    main()
