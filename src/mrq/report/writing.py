"""Writes the files of a report."""

from contextlib import nullcontext
from pathlib import Path

from mrq.errors import MRQError
from mrq.training.run_folder import written_aside


def write(path: Path, text: str) -> None:
    """Writes a file. An existing file is replaced only when the new one is complete; a pipe is written to directly."""
    regular = path.is_file() or not path.exists()
    try:
        with written_aside(path) if regular else nullcontext(path) as place:
            place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise MRQError(f"{path} cannot be written: {error.strerror}.") from None
