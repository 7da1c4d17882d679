"""Example runs whose numbers can be computed by hand."""

from pathlib import Path

import numpy as np

from mrq.report.records import Record


def run(task, seed, value, algorithm="MR.Q", steps=1_000_000, provenance=(), seconds=2.0, parameters=0):
    """Returns a run that is evaluated at the beginning, in the middle and at the end: at 0, half and all of `value`.

    Its seconds grow in the same way.
    """
    at, shares = np.array([0, steps // 2, steps]), np.array([0.0, 0.5, 1.0])
    times = np.zeros(0) if seconds is None else seconds * shares
    return Record(algorithm, task, seed, at, value * shares, times, Path("x"), provenance, parameters)
