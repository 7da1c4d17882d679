"""The matrix on a Ray cluster: each fleet is a task, which Ray runs again elsewhere when its machine dies.

A task trains its fleet in a process of its own, as this machine would, and hands what that says to a mailbox beside the
driver; the mailbox answers whether to stop. This is the only file that knows Ray.
"""

import logging
import os
import socket
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import ray
import torch
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from mrq.benchmark.cluster import Cluster
from mrq.benchmark.fleet import LOOKING_UP, train_apart
from mrq.benchmark.matrix import LARGEST_FLEET, Job
from mrq.benchmark.storage import at_address, named_as_at
from mrq.benchmark.view import View
from mrq.errors import MRQError, one_line
from mrq.replay.memory import available_memory
from mrq.training.interruption import Interruption
from mrq.training.progress import Progress
from mrq.training.run_folder import DOCUMENT, RunFolder

RETRIES = 20  # of a fleet whose worker dies
HANDING_IN = 1.0  # seconds between two messages of a worker
REACHING = 5.0  # seconds after which an address does not answer
UNLOCKING = 60.0  # seconds that a process whose worker died may take to save its run


class Share(NamedTuple):
    """What a fleet takes of the cluster."""

    cpus: float
    gpus: float


class Mailbox:
    """Lives beside the driver."""

    def __init__(self) -> None:
        self._messages: list[tuple[int, Progress | None]] = []
        self._stopped = False

    def hand_in(self, fleet: int, messages: Sequence[Progress | None]) -> bool:
        """Whether the fleet is to stop. None: it has begun."""
        self._messages += [(fleet, message) for message in messages]
        return self._stopped

    def take(self) -> list[tuple[int, Progress | None]]:
        taken, self._messages = self._messages, []
        return taken

    def stop(self) -> None:
        self._stopped = True


@contextmanager
def connected(cluster: Cluster, device: str, say: Callable[[str], None]) -> Iterator[Share]:
    if device not in ("auto", "cpu", "cuda"):
        raise MRQError(f"--device is {device!r}; on a cluster it must be auto, cpu or cuda: Ray chooses which GPU.")
    address = cluster.address or "local"
    if ":" in address:
        _refuse_unreachable(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    warnings.filterwarnings("ignore", module="ray")
    own = {"include_dashboard": False} if cluster.address is None else {}
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except Exception as error:
        raise MRQError(f"there is no Ray cluster at {address} that can be used: {one_line(error)}.") from None
    try:
        gpus = cluster.gpus_per_fleet
        if gpus is None:
            gpus = float(device == "cuda" or (device == "auto" and ray.cluster_resources().get("GPU", 0) > 0))
        if gpus == 0 and device == "cuda":
            raise MRQError("--device is cuda and --gpus-per-fleet is 0; give a share of a GPU, or --device cpu.")
        share = Share(cluster.cpus_per_fleet, 0.0 if device == "cpu" else gpus)
        if not any(_fits(share, node["Resources"]) for node in ray.nodes() if node["Alive"]):
            say(f"no machine of the cluster has {share.cpus:g} cores and {share.gpus:g} GPUs; waiting for one")
        yield share
    except ray.exceptions.RayError as error:
        raise MRQError(f"the cluster is gone ({one_line(error)}); the same command goes on where it stopped.") from None
    finally:
        ray.shutdown()


def _refuse_unreachable(address: str) -> None:
    """At once, where Ray would try for a minute and then end the process."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACHING).close()
    except (OSError, ValueError) as error:
        raise MRQError(
            f"there is no Ray cluster at {address}: {one_line(error)}; start one with `ray start --head`."
        ) from None


def _fits(share: Share, resources: dict[str, float]) -> bool:
    return resources.get("CPU", 0) >= share.cpus and resources.get("GPU", 0) >= share.gpus


def memory_for(share: Share) -> int | None:
    """Bytes that a fleet may take of a GPU, by the first one that Ray gives us; None for no GPU."""
    if not share.gpus:
        return None
    measure = ray.remote(num_cpus=0, num_gpus=share.gpus, max_calls=1)(_free_memory)
    try:
        return int(share.gpus * ray.get(measure.remote()))
    except ray.exceptions.RayTaskError as error:
        raise MRQError(f"a GPU of the cluster cannot be used: {one_line(error.cause or error)}.") from None


def _free_memory() -> int:
    return available_memory(torch.device("cuda"))


def largest_fleet(share: Share, due: int) -> int:
    """So that every GPU has something to do."""
    resources = ray.cluster_resources()
    at_once = resources.get("CPU", 0) / share.cpus
    if share.gpus:
        at_once = min(at_once, resources.get("GPU", 0) / share.gpus)
    return min(LARGEST_FLEET, ceil(due / max(1, int(at_once))))


def run_fleets(
    fleets: Sequence[Sequence[Job]], view: View, share: Share, root: Path, address: str | None
) -> tuple[dict[Job, str], bool]:
    """Runs them all; why those that did not finish did not, and whether it was interrupted.

    The runs lie under `root` on a disk that all machines share; or at `address`, where `root` is what jobs call it.
    """
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    lasting = {"max_restarts": -1, "max_task_retries": -1}
    mailbox = ray.remote(Mailbox).options(num_cpus=0, scheduling_strategy=here, **lasting).remote()
    work = ray.remote(_work).options(
        num_cpus=share.cpus, num_gpus=share.gpus, max_retries=RETRIES, scheduling_strategy="SPREAD"
    )
    failed: dict[Job, str] = {}
    asked = False
    with _marked(root) if address is None else nullcontext("") as marker, Interruption() as interrupted:
        tasks = {
            work.remote(number, list(fleet), mailbox, root, address, marker): number
            for number, fleet in enumerate(fleets)
        }
        begun = set()
        while tasks:
            ended, _ = ray.wait(list(tasks), timeout=LOOKING_UP)
            for number, message in ray.get(mailbox.take.remote()):
                begun.add(number)
                if message is not None:
                    view.show(fleets[number], message)
            if interrupted():
                # Those in training save everything first. Said each time: a mailbox that died forgot it.
                ray.get(mailbox.stop.remote())
                waiting = [] if asked else [task for task, number in tasks.items() if number not in begun]
                for task in waiting:
                    ray.cancel(task)
                asked = True
            for task in ended:
                fleet = fleets[tasks.pop(task)]
                broken = _outcome(task, fleet)
                if not asked:
                    failed |= broken
                    view.end(fleet, broken)
    return failed, interrupted()


def _outcome(task: Any, fleet: Sequence[Job]) -> dict[Job, str]:
    try:
        reasons = ray.get(task)
    except ray.exceptions.RayTaskError as error:
        reasons = [one_line(error.cause or error)] * len(fleet)
    except ray.exceptions.RayError as error:
        reasons = [f"its worker died once too often: {one_line(error)}"] * len(fleet)
    return {job: why for job, why in zip(fleet, reasons, strict=True) if why is not None}


def _work(
    number: int, fleet: Sequence[Job], mailbox: Any, root: Path, address: str | None, marker: str
) -> list[str | None]:
    """In a worker of the cluster: why each run did not finish, or None."""
    messages: list[Progress] = []
    handed_in, answer = time.monotonic(), mailbox.hand_in.remote(number, [None]).future()

    def told_to_stop() -> bool:
        """By the last answer: while a task waits for one, Ray would lend its cores to others."""
        nonlocal handed_in, answer
        if not answer.done():
            return False
        stop = bool(answer.result())
        if time.monotonic() - handed_in >= HANDING_IN:
            handed_in, answer = time.monotonic(), mailbox.hand_in.remote(number, messages).future()
            messages.clear()
        return stop

    if not ray.get_gpu_ids():
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # for the process that trains
    try:
        if address is None:
            _refuse_other_disk(root, marker)
            _wait_for_locks(fleet)
            failed = train_apart(fleet, messages.append, told_to_stop)
            return [failed.get(job) for job in fleet]
        runs = [job.path.relative_to(root).as_posix() for job in fleet]
        owner = f"{socket.gethostname()} {ray.get_runtime_context().get_node_id()}"
        with at_address(address, runs, owner) as (folder, lost):
            local = [replace(job, root=folder / job.root.relative_to(root)) for job in fleet]
            failed = train_apart(local, messages.append, lambda: told_to_stop() or len(lost) == len(runs))
        told = [named_as_at(address, folder, failed.get(job, "")) for job in local]
        return [lost.get(run) or why or None for run, why in zip(runs, told, strict=True)]
    except MRQError as error:
        return [str(error)] * len(fleet)
    finally:
        mailbox.hand_in.remote(number, messages).future().result()


@contextmanager
def _marked(root: Path) -> Iterator[str]:
    """The name of a file in it, by which a worker knows the folder from one of its own that is called the same."""
    marker = root / f".shared-{uuid.uuid4().hex}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        marker.touch()
    except OSError as error:
        raise MRQError(f"{root} cannot be written to: {error.strerror}; choose another with --runs.") from None
    try:
        yield marker.name
    finally:
        marker.unlink(missing_ok=True)


def _refuse_other_disk(root: Path, marker: str) -> None:
    if not (root / marker).exists():
        raise MRQError(
            f"{root} on {socket.gethostname()} is not that of the machine that gave the command: they do not share "
            "that disk; give --runs a folder that all machines share, or an address such as s3://bucket/runs."
        )


def _wait_for_locks(fleet: Sequence[Job]) -> None:
    """A process that outlived its worker on this machine is saving what it has; the next one goes on from there."""
    until = time.monotonic() + UNLOCKING
    for job in fleet:
        while (job.path / DOCUMENT).exists() and time.monotonic() < until:
            with closing(RunFolder(job.path)) as run:
                try:
                    run.lock()
                    break
                except MRQError:
                    time.sleep(LOOKING_UP)
