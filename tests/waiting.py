"""Waiting for processes to end."""

import time
from pathlib import Path


def gone(pid: int) -> bool:
    """Returns whether a process has ended, even if init has not noticed yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def soon(condition, seconds=10.0):
    """Returns whether a condition becomes true within some seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False
