"""The pace of a training, with a clock that the test sets."""

import pytest

from mrq.training import pace as measuring
from mrq.training.pace import Pace, duration


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(measuring.time, "monotonic", lambda: now[0])
    return now


def advance(pace, clock, steps, seconds):
    """Takes steps, each of which lasts so many seconds."""
    for step in steps:
        clock[0] += seconds
        pace.mark(step)


def test_the_pace_is_that_of_whole_periods(clock):
    pace = Pace(0, period=10)
    assert pace.steps_per_second == 0, "it is unknown at first"
    advance(pace, clock, range(1, 10), 0.5)
    assert pace.steps_per_second == 0, "no period is over"
    advance(pace, clock, [10], 5.5)
    assert pace.steps_per_second == 1.0  # ten steps in ten seconds
    advance(pace, clock, range(11, 21), 0.5)
    assert pace.steps_per_second == pytest.approx(20 / 15)


def test_the_pace_is_that_of_the_last_four_periods(clock):
    pace = Pace(0, period=10)
    advance(pace, clock, range(1, 21), 5.0)
    advance(pace, clock, range(21, 61), 0.5)
    assert pace.steps_per_second == pytest.approx(2.0)


def test_other_time_is_left_out_and_a_restart_forgets(clock):
    pace = Pace(0, period=10)
    advance(pace, clock, range(1, 11), 0.5)
    clock[0] += 100
    pace.leave_out(100)
    advance(pace, clock, range(11, 21), 0.5)
    assert pace.steps_per_second == pytest.approx(2.0)
    pace.restart(20)
    assert pace.steps_per_second == 0
    advance(pace, clock, range(21, 31), 0.25)
    assert pace.steps_per_second == pytest.approx(4.0)


def test_durations_are_hours_minutes_and_seconds():
    assert [duration(seconds) for seconds in (0, 59.9, 61, 3_600, 360_000, 1e12)] == [
        *("0:00:00", "0:00:59", "0:01:01", "1:00:00", "100:00:00", "-"),
    ]
