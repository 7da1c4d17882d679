"""Run folders at an address of fsspec's, such as s3://bucket/runs, so that machines need share no disk.

A worker fetches a run to go on with it, and sends what has changed while it trains. At the address a checkpoint has a
copy of the run's settings and evaluations beside its own files, made after it was written, and counts from when the
empty file `sent`, which is sent last, lies there; only then are older ones removed. So whoever goes on from a
checkpoint has every evaluation before it, wherever the worker before was cut off. The file `owner` says which worker
has the run: one that finds another's name there sends nothing more.
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
from mrq.training.checkpoint import latest_checkpoint
from mrq.training.run_folder import ASIDE, CHECKPOINTS, DOCUMENT, TABLES, TENSORBOARD

SENDING = 2.0  # seconds between two looks at what has changed
SENDING_LAST = 300.0  # seconds for which what was trained last is tried to be sent
SENT, OWNER = "sent", "owner"


class TakenOver(MRQError):
    """Another worker has the run now."""


class Store(NamedTuple):
    address: str
    files: Any  # fsspec's file system
    root: str  # the address as the file system names it

    def place(self, *parts: str) -> str:
        return "/".join((self.root.rstrip("/"), *parts))

    def listed(self, *parts: str) -> list[str]:
        """All files under a folder of the store, as paths from there; none if there is no such folder."""
        self.files.invalidate_cache()
        place = self.place(*parts)
        return sorted(path[len(place) :].lstrip("/") for path in self.files.find(place))


def is_address(place: str) -> bool:
    return "://" in place


def store_at(address: str) -> Store:
    try:
        files, root = fsspec.url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise MRQError(f"{address} cannot be used: {one_line(error)}.") from None
    return Store(address.rstrip("/"), files, root)


def named_as_at(runs: str, folder: Path, sentence: str) -> str:
    """A sentence about runs at an address, which names the folder where they are at hand."""
    return sentence.replace(str(folder), runs.rstrip("/")) if is_address(runs) else sentence


@contextmanager
def at_hand(runs: str) -> Iterator[Path]:
    """Where a matrix or a report sees the runs: in place, or what it needs to know of those at an address."""
    if not is_address(runs):
        yield Path(runs)
        return
    store = store_at(runs)
    if "memory" in store.files.protocol:
        raise MRQError(f"{runs} is forgotten when its process ends; give an address that lasts.")
    with TemporaryDirectory(prefix="mrq-") as folder:
        mirror(store, Path(folder))
        yield Path(folder)


def mirror(store: Store, folder: Path) -> None:
    """The tables of all runs, and which checkpoints they have, as empty folders."""
    with _reading(store):
        wanted = []
        for path in store.listed():
            *parents, name = path.split("/")
            table = name in TABLES and CHECKPOINTS not in parents
            if table or (name == SENT and parents[-2:-1] == [CHECKPOINTS]):
                folder.joinpath(*parents).mkdir(parents=True, exist_ok=True)
            if table:
                wanted.append(path)
        if wanted:
            store.files.get([store.place(path) for path in wanted], [str(folder / path) for path in wanted])


def fetch(store: Store, run: str, folder: Path) -> str | None:
    """The run at its last complete checkpoint, whose name is returned; nothing of one that has none."""
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
        return complete[-1]


@contextmanager
def _reading(store: Store) -> Iterator[None]:
    """Says what goes wrong meanwhile: with the address, or with the temporary folder that has no room for it."""
    try:
        yield
    except Exception as error:  # each file system has its own
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise MRQError(
                f"the temporary folder {gettempdir()} of {gethostname()} is full; make room, or name another in TMPDIR."
            ) from None
        raise MRQError(f"{store.address} cannot be read: {one_line(error)}.") from None


class Outbox:
    """A run in training, and what of it the store has already."""

    def __init__(self, store: Store, run: str, folder: Path, owner: str) -> None:
        self._store, self._run, self._folder = store, run, folder
        self._sent: dict[Path, tuple[int, int]] = {}  # when a file was changed that was sent, and its size
        self._owner = f"{owner} {uuid.uuid4().hex}".encode()
        store.files.makedirs(store.place(run, TENSORBOARD), exist_ok=True)
        store.files.pipe_file(store.place(run, OWNER), self._owner)
        self._checkpoint = fetch(store, run, folder)

    def send(self) -> None:
        """What has changed; refuses where another worker has taken the run over."""
        if not self._folder.exists():
            return
        self._refuse_if_taken_over()
        with TemporaryDirectory(prefix=".sending-", dir=self._folder.parent) as aside:
            checkpoint = _held(self._folder, self._checkpoint, Path(aside))  # before the tables, which may be newer
            # Without its document there is no run, so that it goes first.
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
        self._store.files.mv(place + ASIDE, place)  # whole, or as it was before
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
        self._refuse_if_taken_over()  # it may have taken a while
        files.pipe_file(f"{place}/{SENT}", b"")
        self._checkpoint = checkpoint.name
        for old in {path.partition("/")[0] for path in self._store.listed(self._run, CHECKPOINTS)} - {checkpoint.name}:
            files.rm(self._store.place(self._run, CHECKPOINTS, old), recursive=True)

    def _refuse_if_taken_over(self) -> None:
        if self._store.files.cat_file(self._store.place(self._run, OWNER)) != self._owner:
            raise TakenOver(f"another worker has taken over the run in {self._store.address}/{self._run}.")


class Sending(NamedTuple):
    """Runs in training whose address gets what changes."""

    folder: Path  # under which they lie here
    lost: dict[str, str]  # why the address does not get what was trained last, by run


@contextmanager
def at_address(address: str, runs: Sequence[str], owner: str) -> Iterator[Sending]:
    """The runs in a temporary folder, as far as they have come, and sent back from there until all is over.

    What cannot be sent in the end is kept where it is.
    """
    store = store_at(address)
    over, lost = threading.Event(), dict[str, str]()
    with scratch_folder() as scratch:
        try:
            outboxes = {run: Outbox(store, run, scratch / run, owner) for run in runs}
        except MRQError:
            raise
        except Exception as error:
            raise MRQError(f"{address} cannot be used: {one_line(error)}.") from None

        def send() -> dict[str, str]:
            """Each by itself; what went wrong, by run."""
            failed = {}
            for run in [run for run in runs if run not in lost]:
                try:
                    outboxes[run].send()
                except TakenOver as error:
                    lost[run] = str(error)
                except Exception as error:  # of the network, say
                    failed[run] = one_line(error)
            return failed

        def keep_sending() -> None:
            while not over.wait(SENDING):
                send()

        thread = threading.Thread(target=keep_sending, daemon=True)
        thread.start()
        try:
            yield Sending(scratch, lost)
        finally:
            over.set()
            thread.join()
            until = time.monotonic() + SENDING_LAST
            while (failed := send()) and time.monotonic() < until:
                time.sleep(SENDING)
            if failed:
                kept = keep(scratch)
            for run, why in failed.items():
                lost[run] = (
                    f"what was trained last could not be sent to {address}: {why}; "
                    f"it is kept on {gethostname()} in {kept / run}."
                )


def _held(run: Path, sent: str | None, aside: Path) -> Path | None:
    """The latest checkpoint, unless it was sent, as links that outlive its removal, with the tables as they are now."""
    while True:
        latest = latest_checkpoint(run / CHECKPOINTS)
        if latest is None or latest.name == sent:
            return None
        held = aside / latest.name
        try:
            shutil.copytree(latest, held, copy_function=_link)
        except OSError:
            if latest_checkpoint(run / CHECKPOINTS) == latest:
                raise
        if latest_checkpoint(run / CHECKPOINTS) == latest:  # only then is it whole: the next one removes it
            for name in TABLES:
                with suppress(FileNotFoundError):
                    shutil.copy(run / name, held / name)
            return held
        shutil.rmtree(held, ignore_errors=True)


def _link(file: str, to: str) -> None:
    try:
        os.link(file, to)
    except OSError:  # not every disk has links
        shutil.copyfile(file, to)
