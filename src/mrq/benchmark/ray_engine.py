"""The Ray engine: trains a matrix on a cluster. Each fleet is a Ray task, which Ray retries if its machine fails.

A task trains its fleet in a child process, as the local engine does. It sends the child's progress to a mailbox on the
driver's machine, and the mailbox answers whether to stop. This is the only file that knows Ray.
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
from mrq.benchmark.fleet import POLL_SECONDS, train_in_child
from mrq.benchmark.matrix import LARGEST_FLEET, Job
from mrq.benchmark.progress import Progress
from mrq.benchmark.storage import at_address, named_as_at
from mrq.benchmark.view import View
from mrq.errors import MRQError, one_line
from mrq.memory import available_memory
from mrq.training.interruption import Interruption
from mrq.training.run_folder import DOCUMENT, RunFolder

RETRIES = 20  # of a fleet whose worker fails
DELIVERY_SECONDS = 1.0  # between two deliveries of a worker
CONNECTION_SECONDS = 5.0  # that an address gets to answer
UNLOCK_SECONDS = 60.0  # that a child whose worker failed gets to save its run


class Share(NamedTuple):
    """How much of the cluster each fleet takes."""

    cpus: float
    gpus: float


class Mailbox:
    """Takes messages from workers and passes them to the driver; a Ray actor on the driver's machine."""

    def __init__(self) -> None:
        self._messages: list[tuple[int, Progress | None]] = []
        self._stopped = False

    def deliver(self, fleet: int, messages: Sequence[Progress | None]) -> bool:
        """Takes messages of a fleet, of which None means that it has begun; returns whether it should stop."""
        self._messages += [(fleet, message) for message in messages]
        return self._stopped

    def take(self) -> list[tuple[int, Progress | None]]:
        """Returns the messages since the last call, each with its fleet."""
        taken, self._messages = self._messages, []
        return taken

    def stop(self) -> None:
        """Answers from now on that fleets should stop."""
        self._stopped = True


@contextmanager
def connected(cluster: Cluster, device: str, say: Callable[[str], None]) -> Iterator[Share]:
    """Connects to a cluster, or starts one here; yields what each fleet takes of it."""
    if device not in ("auto", "cpu", "cuda"):
        raise MRQError(f"--device is {device!r}; on a cluster it must be auto, cpu or cuda, since Ray chooses the GPU.")
    address = cluster.address or "local"
    if ":" in address:
        _refuse_unreachable(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    warnings.filterwarnings("ignore", module="ray")
    own = {"include_dashboard": False} if cluster.address is None else {}
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except Exception as error:
        raise MRQError(f"the Ray cluster at {address} cannot be used: {one_line(error)}.") from None
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
        raise MRQError(
            f"the connection to the cluster is lost ({one_line(error)}); run the same command again to continue."
        ) from None
    finally:
        ray.shutdown()


def _refuse_unreachable(address: str) -> None:
    """Refuses an address that does not answer at once; Ray would try for a minute and then end the process."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECTION_SECONDS).close()
    except (OSError, ValueError) as error:
        raise MRQError(
            f"there is no Ray cluster at {address}: {one_line(error)}; start one with `ray start --head`."
        ) from None


def _fits(share: Share, resources: dict[str, float]) -> bool:
    return resources.get("CPU", 0) >= share.cpus and resources.get("GPU", 0) >= share.gpus


def memory_for(share: Share) -> int | None:
    """Returns the bytes of a GPU that a fleet may take, as measured on one of the cluster's; None without a GPU."""
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
    """Returns the largest fleet with which every GPU has something to do."""
    resources = ray.cluster_resources()
    at_once = resources.get("CPU", 0) / share.cpus
    if share.gpus:
        at_once = min(at_once, resources.get("GPU", 0) / share.gpus)
    return min(LARGEST_FLEET, ceil(due / max(1, int(at_once))))


def run_fleets(
    fleets: Sequence[Sequence[Job]], view: View, share: Share, root: Path, address: str | None
) -> tuple[dict[Job, str], int | None]:
    """Trains all fleets; returns why runs did not finish, and the signal with which the user interrupted, if any.

    Run folders are under `root`, on a disk that all machines share; or at `address`, which jobs know as `root`.
    """
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    lasting = {"max_restarts": -1, "max_task_retries": -1}
    mailbox = ray.remote(Mailbox).options(num_cpus=0, scheduling_strategy=here, **lasting).remote()
    train = ray.remote(_train).options(
        num_cpus=share.cpus, num_gpus=share.gpus, max_retries=RETRIES, scheduling_strategy="SPREAD"
    )
    failed: dict[Job, str] = {}
    asked = False
    with _marked(root) if address is None else nullcontext("") as marker, Interruption() as interrupted:
        tasks = {
            train.remote(number, list(fleet), mailbox, root, address, marker): number
            for number, fleet in enumerate(fleets)
        }
        begun = set()
        while tasks:
            ended, _ = ray.wait(list(tasks), timeout=POLL_SECONDS)
            for number, message in ray.get(mailbox.take.remote()):
                begun.add(number)
                if message is not None:
                    view.show(fleets[number], message)
            if interrupted():
                # Fleets in training save everything first. A mailbox that was restarted has to be told again.
                ray.get(mailbox.stop.remote())
                waiting = [] if asked else [task for task, number in tasks.items() if number not in begun]
                for task in waiting:
                    ray.cancel(task)
                asked = True
            for task in ended:
                fleet = fleets[tasks.pop(task)]
                reasons = _reasons(task, fleet)
                if not asked:
                    failed |= reasons
                    view.end(fleet, reasons)
    return failed, interrupted.number


def _reasons(task: Any, fleet: Sequence[Job]) -> dict[Job, str]:
    """Returns why runs of a fleet did not finish, after its task has ended."""
    try:
        reasons = ray.get(task)
    except ray.exceptions.RayTaskError as error:
        reasons = [one_line(error.cause or error)] * len(fleet)
    except ray.exceptions.RayError as error:
        reasons = [f"its worker failed too often: {one_line(error)}"] * len(fleet)
    return {job: why for job, why in zip(fleet, reasons, strict=True) if why is not None}


def _train(
    number: int, fleet: Sequence[Job], mailbox: Any, root: Path, address: str | None, marker: str
) -> list[str | None]:
    """Runs in a worker: trains a fleet; returns why each run did not finish, or None."""
    messages: list[Progress] = []
    delivered, answer = time.monotonic(), mailbox.deliver.remote(number, [None]).future()

    def told_to_stop() -> bool:
        """Returns the mailbox's last answer. It does not wait, because Ray lends a waiting task's cores to others."""
        nonlocal delivered, answer
        if not answer.done():
            return False
        stop = bool(answer.result())
        if time.monotonic() - delivered >= DELIVERY_SECONDS:
            delivered, answer = time.monotonic(), mailbox.deliver.remote(number, messages).future()
            messages.clear()
        return stop

    if not ray.get_gpu_ids():
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # for the child
    try:
        if address is None:
            _refuse_other_disk(root, marker)
            _wait_for_locks(fleet)
            failed = train_in_child(fleet, messages.append, told_to_stop)
            return [failed.get(job) for job in fleet]
        runs = [job.path.relative_to(root).as_posix() for job in fleet]
        owner = f"{socket.gethostname()} {ray.get_runtime_context().get_node_id()}"
        with at_address(address, runs, owner) as (folder, lost):
            local = [replace(job, root=folder / job.root.relative_to(root)) for job in fleet]
            failed = train_in_child(local, messages.append, lambda: told_to_stop() or len(lost) == len(runs))
        told = [named_as_at(address, folder, failed.get(job, "")) for job in local]
        return [lost.get(run) or why or None for run, why in zip(runs, told, strict=True)]
    except MRQError as error:
        return [str(error)] * len(fleet)
    finally:
        mailbox.deliver.remote(number, messages).future().result()


@contextmanager
def _marked(root: Path) -> Iterator[str]:
    """Makes a file in the folder and yields its name. A worker that does not find it sees another folder."""
    marker = root / f".shared-{uuid.uuid4().hex}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        marker.touch()
    except OSError as error:
        raise MRQError(f"{root} cannot be written to: {error.strerror}; choose another folder with --runs.") from None
    try:
        yield marker.name
    finally:
        marker.unlink(missing_ok=True)


def _refuse_other_disk(root: Path, marker: str) -> None:
    """Refuses a folder that is not the driver's."""
    if not (root / marker).exists():
        raise MRQError(
            f"{root} on {socket.gethostname()} is another folder than on the machine where the command was given; "
            "give --runs a folder that all machines share, or an address such as s3://bucket/runs."
        )


def _wait_for_locks(fleet: Sequence[Job]) -> None:
    """Waits for a child that outlived its worker on this machine: it is saving the runs that this fleet will resume."""
    deadline = time.monotonic() + UNLOCK_SECONDS
    for job in fleet:
        while (job.path / DOCUMENT).exists() and time.monotonic() < deadline:
            with closing(RunFolder(job.path)) as run:
                try:
                    run.lock()
                    break
                except MRQError:
                    time.sleep(POLL_SECONDS)
