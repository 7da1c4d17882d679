"""Writes the files of a report."""

from pathlib import Path

from mrq.errors import MRQError
from mrq.files import written_aside


def write(path: Path, text: str) -> None:
    """Writes a file. An existing file is replaced only when the new one is complete; a pipe is written to directly."""
    regular = path.is_file() or not path.exists()
    try:
        with written_aside(path) if regular else path.open("wb") as file:
            file.write(text.encode())
    except OSError as error:
        raise MRQError(f"{path} cannot be written: {error.strerror}.") from None
