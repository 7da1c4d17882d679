"""The program `mrq`, also as `python -m mrq`. It imports the rest only when signals can end it without a traceback."""

import os
import sys
from types import FrameType

TYPE_CHECKING = False  # as in `typing`, which is imported only when signals can end it
if TYPE_CHECKING:
    import threading

SECONDS_TO_END = 10  # that an interrupted command gets to close what it opened


def main() -> None:
    """Runs the command that was given."""
    import signal
    import threading

    sys.unraisablehook = _report_unless_interrupt
    threading.excepthook = _report_unless_disk_is_full
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        signal.signal(number, _stop)
    try:
        from mrq.cli import main as run

        run()
    except KeyboardInterrupt as interrupt:  # while an error or an earlier signal was being reported
        sys.exit(128 + next(iter(interrupt.args), signal.SIGINT))
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)  # the rest is Python's own end, which would print a traceback


def _stop(number: int, frame: FrameType | None) -> None:
    """Interrupts the command; at once while it imports a module, which might swallow or report an exception.

    An exception at any moment may leave a lock locked, for which the command's end would wait forever.
    """
    import signal

    signal.signal(signal.SIGALRM, lambda *_: os._exit(128 + number))
    signal.alarm(SECONDS_TO_END)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(128 + number)
        frame = frame.f_back
    raise KeyboardInterrupt(number)


def _report_unless_interrupt(ignored: "sys.UnraisableHookArgs") -> None:
    """Says nothing of a signal that came in a destructor, from which Python lets no exception out."""
    if not issubclass(ignored.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(ignored)


def _report_unless_disk_is_full(failure: "threading.ExceptHookArgs") -> None:
    """Says nothing of a full disk that TensorBoard's thread meets: the command itself says it, in one sentence."""
    import errno
    import threading

    if not (isinstance(failure.exc_value, OSError) and failure.exc_value.errno in (errno.ENOSPC, errno.EDQUOT)):
        threading.__excepthook__(failure)


def _leave_out_current_folder() -> None:
    """Keeps Python from importing what happens to lie in the current folder, unless mrq itself lies there."""
    try:
        here = os.getcwd()
    except FileNotFoundError:  # then Python has not put it on the path either
        return
    if sys.path[0] == here != os.path.dirname(os.path.dirname(os.path.abspath(__file__))):
        del sys.path[0]


if __name__ == "__main__":  # as `python -m mrq`, for which Python puts the current folder first
    _leave_out_current_folder()
    main()
