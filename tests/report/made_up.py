"""Runs whose numbers can be worked out by hand."""

from pathlib import Path

import numpy as np

from mrq.report.records import Record


def run(task, seed, value, algorithm="MR.Q", steps=1_000_000, setup=(), seconds=2.0, parameters=0):
    """Evaluated at the beginning, the middle and the end, when it has 0, half and all of `value`, and of `seconds`."""
    at, shares = np.array([0, steps // 2, steps]), np.array([0.0, 0.5, 1.0])
    times = np.zeros(0) if seconds is None else seconds * shares
    return Record(algorithm, task, seed, at, value * shares, times, Path("x"), setup, parameters)
