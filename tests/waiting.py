"""Finding processes, and waiting for them to end."""

import time
from contextlib import suppress
from pathlib import Path


def gone(pid: int) -> bool:
    """Returns whether a process has ended, even if init has not noticed yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def children_of(pid: int) -> list[int]:
    """Returns the processes that a process started and that have not been reaped."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
    return found


def soon(condition, seconds=10.0):
    """Returns whether a condition becomes true within some seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False
