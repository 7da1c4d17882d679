"""Ctrl-C and SIGTERM as a question that the loop can ask, so that it stops where everything can be saved."""

import signal
import sys
import threading
from types import FrameType
from typing import Any, Self

from mrq.processes import SIGNALS


class Interruption:
    """While entered, a signal makes the instance answer True; a second one interrupts at once, as it did before."""

    def __init__(self) -> None:
        self.number: int | None = None  # the first signal
        self._previous: dict[int, Any] = {}

    def __call__(self) -> bool:
        return self.number is not None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python allows handlers nowhere else
            for number in SIGNALS:
                self._previous[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            if callable(before := self._previous[number]):
                before(number, frame)
            raise KeyboardInterrupt(number)
        self.number = number
        if sys.stderr.isatty():
            sys.stderr.write("\nstopping as soon as everything can be saved; a second signal stops at once\n")
