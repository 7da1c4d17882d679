"""Runs whose numbers can be worked out by hand."""

from pathlib import Path

import numpy as np

from mrq.report.records import Record


def run(task, seed, value, algorithm="MR.Q", steps=1_000_000, setup=()):
    """Evaluated at the beginning, the middle and the end, when it has 0, half of `value` and `value`."""
    at = np.array([0, steps // 2, steps])
    returns, seconds = np.array([0.0, value / 2, value]), np.array([0.0, 1.0, 2.0])
    return Record(algorithm, task, seed, at, returns, seconds, Path("x"), setup)
