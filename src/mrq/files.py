"""Reads and writes files in folders that may come from a stranger.

No link is followed out of such a folder, and no pipe or device is opened: only regular files are read, up to a size,
and a file is written under another name, made for it alone, before it replaces the one that is there.
"""

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import IO

ASIDE = ".unfinished"  # how the names of files end that are being written
MEGABYTE = 1_000_000


class UnsafeFile(OSError):
    """A path is a link, a pipe, a device or a folder where a file is expected, or the file is too large."""

    def __init__(self, what: str) -> None:
        super().__init__(errno.EINVAL, what)

    def __str__(self) -> str:
        return str(self.strerror)


def open_regular(path: Path, flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """Opens a regular file and returns its descriptor. A link is refused, unless the user named it: `follow`."""
    try:
        # Without O_NONBLOCK, opening a pipe would wait for somebody to write to it.
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW), 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow and path.is_symlink():
            raise UnsafeFile("it is a symbolic link") from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnsafeFile("it is not a regular file")
    return descriptor


def is_address(place: str) -> bool:
    """Says whether a place is an address, such as s3://bucket/runs, rather than a folder."""
    return re.match("[^/]+:(/|$)", place) is not None  # pathlib leaves one slash, or none where nothing follows


@contextmanager
def reading(path: Path, limit: int, *, follow: bool = False) -> Iterator[BufferedReader]:
    """Opens a regular file of at most `limit` bytes."""
    with open(open_regular(path, follow=follow), "rb") as file:
        if os.fstat(file.fileno()).st_size > limit:
            raise UnsafeFile(f"it is larger than {limit / MEGABYTE:,.0f} MB")
        yield file


def read_text(path: Path, limit: int, encoding: str = "utf-8", *, follow: bool = False) -> str:
    """Returns the text of a regular file of at most `limit` bytes, with its line endings as they are."""
    with reading(path, limit, follow=follow) as file:
        return file.read(limit).decode(encoding)


@contextmanager
def written_aside(path: Path) -> Iterator[IO[bytes]]:
    """Gives a new file to write to, which then replaces `path`; if writing fails, what was there stays."""
    aside = path.with_name(path.name + ASIDE)
    try:
        with open_new(aside) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # or a power failure after the renaming could leave an empty file
        aside.replace(path)
    except BaseException:
        with suppress(OSError):
            remove(aside)
        raise


def open_new(path: Path) -> IO[bytes]:
    """Makes a file and opens it to be written to. What had that name, left by a kill or put there, is removed."""
    remove(path)
    return open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666), "w+b")


def remove(path: Path) -> None:
    """Removes a file, a link (not what it points to) or a folder with all that it holds, if there is any."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path)


def is_folder(path: Path) -> bool:
    """Says whether there is a folder, and not a link to one."""
    return path.is_dir() and not path.is_symlink()
