"""How fast training goes."""

import time
from collections import deque


class Pace:
    """Measures steps per second over the last few whole periods, because updates come in bursts."""

    def __init__(self, steps: int, period: int) -> None:
        self._period, self._last = period, steps
        self._marks: deque[tuple[float, int]] = deque([(time.monotonic(), steps)], maxlen=5)

    @property
    def steps_per_second(self) -> float:
        """Of each agent; 0 while it is unknown."""
        (then, earlier), (now, steps) = self._marks[0], self._marks[-1]
        return (steps - earlier) / (now - then) if now > then else 0.0

    def mark(self, steps: int) -> None:
        """Is told how many steps have been taken, whenever there are more."""
        if steps // self._period > self._last // self._period:
            self._marks.append((time.monotonic(), steps))
        self._last = steps

    def restart(self, steps: int) -> None:
        """Measures from here on, as when training begins."""
        self._marks.clear()
        self._marks.append((time.monotonic(), steps))

    def leave_out(self, seconds: float) -> None:
        """Does not count time that was spent on something else, such as an evaluation."""
        self._marks = deque([(then + seconds, steps) for then, steps in self._marks], maxlen=self._marks.maxlen)


def duration(seconds: float) -> str:
    """Writes seconds as hours, minutes and seconds."""
    if seconds > 359_999_999:
        return "-"
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,}:{minutes:02d}:{seconds:02d}"
