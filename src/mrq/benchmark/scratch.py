"""A worker's temporary folder. If the worker is killed, the next one on that machine removes it."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import gethostname
from tempfile import gettempdir, mkdtemp

from mrq.errors import MRQError, one_line

IN_USE, KEPT = "mrq-worker", "mrq-kept"  # prefixes of their names


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yields a new folder, and removes it afterwards; before that, removes those that killed workers left."""
    prefix = f"{IN_USE}-{gethostname()}"  # machines may share their temporary folder
    for folder in Path(gettempdir()).glob(f"{prefix}-*"):
        with suppress(OSError), _locked(folder):  # it may be in use, or another user's
            shutil.rmtree(folder, ignore_errors=True)
    try:
        made = Path(mkdtemp(prefix="mrq-"))
    except OSError as error:
        raise MRQError(
            f"no temporary folder can be made on {gethostname()}: {one_line(error)}; name another in TMPDIR."
        ) from None
    with _locked(made):
        # Other workers recognise the folder by its name, which it gets once it is locked.
        folder = made.rename(made.with_name(made.name.replace("mrq", prefix, 1)))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def keep(folder: Path) -> Path:
    """Renames a scratch folder so that nobody removes it; returns its new path."""
    return folder.rename(folder.with_name(folder.name.replace(IN_USE, KEPT, 1)))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Locks a folder, until the process ends at the latest; raises OSError if it is locked already."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
