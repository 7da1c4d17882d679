"""Files that a report is written to."""

from pathlib import Path

from mrq.errors import MRQError
from mrq.training.run_folder import ASIDE


def write(path: Path, text: str) -> None:
    """Aside, and renamed, so that a full disk costs no earlier one; what is no file, such as a pipe, is written to."""
    aside = path.with_name(path.name + ASIDE) if path.is_file() or not path.exists() else path
    try:
        aside.write_text(text, encoding="utf-8")
        if aside != path:
            aside.replace(path)
    except OSError as error:
        if aside != path:
            aside.unlink(missing_ok=True)
        raise MRQError(f"{path} cannot be written: {error.strerror}.") from None
