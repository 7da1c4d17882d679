"""Files that a report is written to."""

from contextlib import nullcontext
from pathlib import Path

from mrq.errors import MRQError
from mrq.training.run_folder import written_aside


def write(path: Path, text: str) -> None:
    """Aside, so that a full disk costs no earlier one; what is no file, such as a pipe, is written to."""
    regular = path.is_file() or not path.exists()
    try:
        with written_aside(path) if regular else nullcontext(path) as place:
            place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise MRQError(f"{path} cannot be written: {error.strerror}.") from None
