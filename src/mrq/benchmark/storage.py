"""Run folders at an fsspec address, such as s3://bucket/runs, for machines that do not share a disk.

A worker fetches a run to resume it, and sends what has changed while it trains. At the address, a checkpoint also
contains the run's settings and evaluations, copied after it was written. It counts once the empty file `sent` exists,
which is sent last; only then are older checkpoints removed. So a worker that resumes from a checkpoint has every
evaluation before it, whenever the previous worker stopped. The file `owner` names the worker that trains the run: a
worker that finds another name there sends nothing more.
"""

import errno
import os
import shutil
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import gethostname
from tempfile import TemporaryDirectory, gettempdir
from typing import Any, NamedTuple

import fsspec

from mrq.benchmark.scratch import keep, scratch_folder
from mrq.errors import MRQError, one_line
from mrq.files import ASIDE, is_address
from mrq.training import checkpoint as checkpoints
from mrq.training.checkpoint import latest_checkpoint
from mrq.training.run_folder import CHECKPOINTS, DOCUMENT, TABLES, TENSORBOARD
from mrq.training.tracking_file import TRACKING

SEND_SECONDS = 2.0  # between two times that changes are sent
LAST_SEND_SECONDS = 300.0  # for which the last changes are retried
SENT, OWNER = "sent", "owner"


class TakenOver(MRQError):
    """Another worker trains the run now."""


class Store(NamedTuple):
    """An address, and the file system behind it."""

    address: str
    files: Any  # fsspec's file system
    root: str  # the address as the file system names it

    def place(self, *parts: str) -> str:
        """Returns a path under the address, as the file system names it."""
        return "/".join((self.root.rstrip("/"), *parts))

    def listed(self, *parts: str) -> list[str]:
        """Lists the files under a folder, relative to it; none if the folder does not exist.

        Object stores allow names that would lead out of the folder where they are copied to; these are left out.
        """
        self.files.invalidate_cache()
        place = self.place(*parts)
        paths = (path[len(place) :].lstrip("/") for path in self.files.find(place))
        return sorted(path for path in paths if ".." not in path.split("/"))


def store_at(address: str) -> Store:
    """Returns the store at an address; nothing is read or written yet."""
    try:
        files, root = fsspec.url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise MRQError(f"{address} cannot be used: {one_line(error)}.") from None
    return Store(address.rstrip("/"), files, root)


def named_as_at(runs: str, folder: Path, sentence: str) -> str:
    """Replaces, in a sentence about runs at an address, the local folder of their mirror with the address."""
    return sentence.replace(str(folder), runs.rstrip("/")) if is_address(runs) else sentence


@contextmanager
def at_hand(runs: str) -> Iterator[Path]:
    """Yields a folder where runs can be read: the folder itself, or a mirror of an address."""
    if not is_address(runs):
        yield Path(runs)
        return
    store = store_at(runs)
    if "memory" in store.files.protocol:
        raise MRQError(f"{runs} is lost when its process ends; give a permanent address.")
    with TemporaryDirectory(prefix="mrq-") as folder:
        mirror(store, Path(folder))
        yield Path(folder)


def mirror(store: Store, folder: Path) -> None:
    """Copies the tables of all runs, and what says at which step each of their checkpoints was written."""
    with _reading(store):
        tables, documents = [], []
        for path in store.listed():
            *parents, name = path.split("/")
            if name in TABLES and CHECKPOINTS not in parents:
                tables.append(path)
            if name == SENT and parents[-2:-1] == [CHECKPOINTS]:
                documents.append("/".join((*parents, checkpoints.DOCUMENT)))
        for path in (*tables, *documents):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
        places = [store.place(path) for path in documents]
        contents = store.files.cat_ranges(places, starts=None, ends=None, on_error="return")
        for path, content in zip(documents, contents, strict=True):
            if isinstance(content, FileNotFoundError):
                continue  # a training has replaced the checkpoint since it was listed
            if isinstance(content, Exception):
                raise content
            (folder / path).write_bytes(content)
        if tables:
            store.files.get([store.place(path) for path in tables], [str(folder / path) for path in tables])


def fetch(store: Store, run: str, folder: Path) -> str | None:
    """Copies a run at its last complete checkpoint and returns that checkpoint's name; None if there is none."""
    with _reading(store):
        files = [path.partition("/")[::2] for path in store.listed(run, CHECKPOINTS)]
        complete = sorted(checkpoint for checkpoint, name in files if name == SENT)
        if not complete:
            return None
        for checkpoint, name in files:
            if checkpoint == complete[-1] and name != SENT:
                to = folder / name if name in TABLES else folder / CHECKPOINTS / checkpoint / name
                to.parent.mkdir(parents=True, exist_ok=True)
                store.files.get_file(store.place(run, CHECKPOINTS, checkpoint, name), str(to))
        tracking = store.place(run, TRACKING)
        if store.files.exists(tracking):  # trackers' runs may have been told more than the checkpoint knows
            store.files.get_file(tracking, str(folder / TRACKING))
        return complete[-1]


@contextmanager
def _reading(store: Store) -> Iterator[None]:
    """Turns a failure to read from the store into a sentence: about the address, or about a full temporary folder."""
    try:
        yield
    except Exception as error:  # each file system has errors of its own
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise MRQError(
                f"the temporary folder {gettempdir()} of {gethostname()} is full; make room, or name another in TMPDIR."
            ) from None
        raise MRQError(f"{store.address} cannot be read: {one_line(error)}.") from None


class Outbox:
    """Sends a run that is in training to the store, and remembers what the store has already."""

    def __init__(self, store: Store, run: str, folder: Path, owner: str) -> None:
        self._store, self._run, self._folder = store, run, folder
        self._sent: dict[Path, tuple[int, int]] = {}  # when each sent file was changed, and its size
        self._owner = f"{owner} {uuid.uuid4().hex}".encode()
        store.files.makedirs(store.place(run, TENSORBOARD), exist_ok=True)
        store.files.pipe_file(store.place(run, OWNER), self._owner)
        self._checkpoint = fetch(store, run, folder)

    def send(self) -> None:
        """Sends what has changed; refuses if another worker has taken over the run."""
        if not self._folder.exists():
            return
        self._refuse_if_taken_over()
        with TemporaryDirectory(prefix=".sending-", dir=self._folder.parent) as aside:
            checkpoint = _copy_of_latest(
                self._folder, self._checkpoint, Path(aside)
            )  # first, so that the tables are as new or newer
            # The document goes first: without it there is no run.
            for path in (self._folder / DOCUMENT, *self._folder.glob("*.*"), *self._folder.glob(f"{TENSORBOARD}/*")):
                if not path.name.endswith(ASIDE):
                    self._send_file(path)
            if checkpoint is not None:
                self._send_checkpoint(checkpoint)

    def _send_file(self, path: Path) -> None:
        status = path.stat()
        now = status.st_mtime_ns, status.st_size
        if self._sent.get(path) == now:
            return
        place = self._store.place(self._run, *path.relative_to(self._folder).parts)
        self._store.files.put_file(str(path), place + ASIDE)
        self._store.files.mv(place + ASIDE, place)  # so that readers see either the whole file or the previous one
        self._sent[path] = now

    def _send_checkpoint(self, checkpoint: Path) -> None:
        files, place = self._store.files, self._store.place(self._run, CHECKPOINTS, checkpoint.name)
        files.makedirs(place, exist_ok=True)
        for path in sorted(checkpoint.rglob("*")):
            to = f"{place}/{path.relative_to(checkpoint).as_posix()}"
            if path.is_dir():
                files.makedirs(to, exist_ok=True)
            else:
                files.put_file(str(path), to)
        self._refuse_if_taken_over()  # sending may have taken a while
        files.pipe_file(f"{place}/{SENT}", b"")
        self._checkpoint = checkpoint.name
        for old in {path.partition("/")[0] for path in self._store.listed(self._run, CHECKPOINTS)} - {checkpoint.name}:
            files.rm(self._store.place(self._run, CHECKPOINTS, old), recursive=True)

    def _refuse_if_taken_over(self) -> None:
        if self._store.files.cat_file(self._store.place(self._run, OWNER)) != self._owner:
            raise TakenOver(f"another worker has taken over the run in {self._store.address}/{self._run}.")


class Sending(NamedTuple):
    """Runs in training whose changes are sent."""

    folder: Path  # where their run folders are on this machine
    lost: dict[str, str]  # by run, why its last changes were not sent


@contextmanager
def at_address(address: str, runs: Sequence[str], owner: str) -> Iterator[Sending]:
    """Fetches runs into a temporary folder, and sends their changes until the block ends.

    A run whose last changes cannot be sent is kept on this machine.
    """
    store = store_at(address)
    ended, lost = threading.Event(), dict[str, str]()
    with scratch_folder() as scratch:
        try:
            outboxes = {run: Outbox(store, run, scratch / run, owner) for run in runs}
        except MRQError:
            raise
        except Exception as error:
            raise MRQError(f"{address} cannot be used: {one_line(error)}.") from None

        def send() -> dict[str, str]:
            """Sends every run; returns what went wrong, by run."""
            failed = {}
            for run in [run for run in runs if run not in lost]:
                try:
                    outboxes[run].send()
                except TakenOver as error:
                    lost[run] = str(error)
                except Exception as error:  # such as a network error
                    failed[run] = one_line(error)
            return failed

        def keep_sending() -> None:
            while not ended.wait(SEND_SECONDS):
                send()

        thread = threading.Thread(target=keep_sending, daemon=True)
        thread.start()
        try:
            yield Sending(scratch, lost)
        finally:
            ended.set()
            thread.join()
            deadline = time.monotonic() + LAST_SEND_SECONDS
            while (failed := send()) and time.monotonic() < deadline:
                time.sleep(SEND_SECONDS)
            if failed:
                kept = keep(scratch)
            for run, why in failed.items():
                lost[run] = (
                    f"the last changes could not be sent to {address}: {why}; "
                    f"they are kept on {gethostname()} in {kept / run}."
                )


def _copy_of_latest(run: Path, sent: str | None, aside: Path) -> Path | None:
    """Returns a copy of the latest checkpoint with the run's tables; None if the checkpoint was sent already.

    Its files are links, so that they stay when training removes the checkpoint.
    """
    while True:
        latest = latest_checkpoint(run / CHECKPOINTS)
        if latest is None or latest.name == sent:
            return None
        copy = aside / latest.name
        try:
            shutil.copytree(latest, copy, copy_function=_link)
        except OSError:
            if latest_checkpoint(run / CHECKPOINTS) == latest:
                raise
        if latest_checkpoint(run / CHECKPOINTS) == latest:  # if not, training may have removed some of its files
            for name in TABLES:
                with suppress(FileNotFoundError):
                    shutil.copy(run / name, copy / name)
            return copy
        shutil.rmtree(copy, ignore_errors=True)


def _link(file: str, to: str) -> None:
    try:
        os.link(file, to)
    except OSError:  # not every disk supports links
        shutil.copyfile(file, to)
