"""A worker's temporary folder. It is removed even where the worker died: by the next one on that machine."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import gethostname
from tempfile import gettempdir, mkdtemp

from mrq.errors import MRQError, one_line

IN_USE, KEPT = "mrq-worker", "mrq-kept"  # how their names begin


@contextmanager
def scratch_folder() -> Iterator[Path]:
    prefix = f"{IN_USE}-{gethostname()}"  # the temporary folder may be one that machines share
    for left in Path(gettempdir()).glob(f"{prefix}-*"):
        with suppress(OSError), _locked(left):  # another worker's, or another user's
            shutil.rmtree(left, ignore_errors=True)
    try:
        made = Path(mkdtemp(prefix="mrq-"))
    except OSError as error:
        raise MRQError(f"{gethostname()} has no temporary folder that can be used: {one_line(error)}.") from None
    with _locked(made):
        folder = made.rename(made.with_name(made.name.replace("mrq", prefix, 1)))  # known as ours once it is locked
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def keep(folder: Path) -> Path:
    """Where it is from now on, and nobody removes it."""
    return folder.rename(folder.with_name(folder.name.replace(IN_USE, KEPT, 1)))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Until the process ends, if that is earlier; refuses a folder that is locked already."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
