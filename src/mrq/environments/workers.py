"""Environments that are stepped in other processes, on all cores.

Actions and results are in shared memory, one row per environment; the pipes only say when. If a process dies or hangs,
the environment that was being called has failed. The other environments of that process are made again in a new one and
reported as `restarted`.
"""

import atexit
import heapq
import multiprocessing
import pickle
import selectors
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mrq.environments.checked import CheckedEnvironment
from mrq.environments.environments import Faults, failed_at, fault_sentence
from mrq.environments.local import IDLE, LocalEnvironments
from mrq.environments.making import MAKING_SECONDS
from mrq.environments.recipe import Recipe
from mrq.errors import MRQError
from mrq.interface import Array, Spec, Transitions, common_spec
from mrq.processes import CLOSING_SECONDS, LIVENESS_SECONDS, Child, Pipe

# Seconds that a step in processes takes beyond the environments' own: once, and per process.
OVERHEAD, OVERHEAD_PER_PROCESS = 0.0001, 0.00005
COMMAND = struct.Struct("=cq")  # what to do, and at which step or with which environment
RESET, STEP, REPLAY, CLOSE = b"r", b"s", b"p", b"c"


class Assignment(NamedTuple):
    """What a process needs to know to make and serve its environments."""

    members: list[int]  # its environments
    recipes: Sequence[Recipe]
    names: Sequence[str]
    specs: Sequence[Spec]
    memory: Any  # shared by all processes: see _rows
    at_work: Any  # shared with the parent: the position in `members` of the environment that is being called


@dataclass(eq=False)
class Worker:
    """A process that serves some of the environments."""

    child: Child
    members: list[int]
    at_work: Any


class WorkerEnvironments:
    """The `Environments` of several processes.

    `seconds` are what a step of each environment takes, `timeout` what a process may take to answer.
    """

    begin_by_themselves = False

    def __init__(
        self,
        recipes: Sequence[Recipe],
        names: Sequence[str],
        specs: Sequence[Spec],
        seconds: Sequence[float],
        processes: int,
        timeout: float,
    ) -> None:
        self.names, self.specs, self.spec = names, specs, common_spec(specs, names)
        self._recipes, self._seconds, self._timeout = recipes, seconds, timeout
        self._failed: dict[int, str] = {}  # in any call so far
        # What the current call has to return. An interrupted call leaves it to the next one.
        self._newly_failed: set[int] = set()
        self._restarted: set[int] = set()
        self._memory = RawArray("b", _row(self.spec).itemsize * len(recipes))
        self._rows = _rows(self._memory, self.spec)
        self._selector = selectors.DefaultSelector()
        self._workers: dict[int, Worker] = {}  # by environment; lost ones are removed
        self._waiting: set[Worker] = set()  # those that have not answered yet
        atexit.register(self.close)  # before multiprocessing waits for children, which ignore its SIGTERM
        try:
            for members in _spread(seconds, processes):
                self._start(members)
            self._collect("could not be made", timeout + MAKING_SECONDS)
            if self._failed:
                raise MRQError(next(iter(self._failed.values())))
        except BaseException:
            self.close()
            raise

    def reset(self, which: Array, seeds: Sequence[int], step: int) -> tuple[Array, Faults]:
        """Begins episodes where `which` (environments,) is true; returns first frames (environments, *frame_shape)."""
        succeeded = self._ask(RESET, which, step, "seed", seeds)
        return self._results(succeeded, "frame")[0], self._faults(which)

    def step(self, which: Array, actions: Array, step: int) -> tuple[Transitions, Faults]:
        """Steps the environments where `which` is true."""
        succeeded = self._ask(STEP, which, step, "action", actions)
        results = self._results(succeeded, "reward", "terminated", "truncated", "frame")
        return Transitions(actions, *results), self._faults(which)

    def replay_episode(self, environment: int, seed: int, actions: Array) -> tuple[Array | None, Faults]:
        """Replays an environment's episode; returns its last frame, or None if the episode ended early."""
        which = np.arange(len(self.names)) == environment
        self._collect_leftovers()
        if environment not in self._failed:
            self._rows["seed"][environment] = seed
            command = COMMAND.pack(REPLAY, environment) + np.asarray(actions, np.float32).tobytes()
            self._send(self._workers[environment], command)
            timeout = self._timeout + 10 * self._seconds[environment] * len(actions)  # one answer for many steps
            self._collect("failed while its episode was replayed", timeout)
        faults = self._faults(which)
        if environment in self._failed or self._rows["terminated"][environment]:
            return None, faults
        frame: Array = self._rows["frame"][environment].copy()
        return frame, faults

    def close(self) -> None:
        """Closes all environments, also after a fault or an interrupt. Closing twice does no harm."""
        atexit.unregister(self.close)
        workers = set(self._workers.values())
        for worker in workers:
            self._send(worker, COMMAND.pack(CLOSE, 0))
        deadline = time.monotonic() + CLOSING_SECONDS
        for worker in workers:
            self._end(worker, max(0, deadline - time.monotonic()))
        self._selector.close()

    def _start(self, members: list[int]) -> None:
        at_work = RawArray("q", [IDLE])
        assignment = Assignment(members, self._recipes, self.names, self.specs, self._memory, at_work)
        name = ", ".join(dict.fromkeys(self._recipes[member].task for member in members))
        worker = Worker(Child(_work, (assignment,), duplex=True, name=name), members, at_work)
        self._workers |= dict.fromkeys(members, worker)
        self._waiting.add(worker)
        self._selector.register(worker.child.connection, selectors.EVENT_READ, worker)

    def _ask(self, command: bytes, which: Array, step: int, argument: str, values: Array | Sequence[int]) -> Array:
        """Has the environments where `which` is true do something; returns where they did it."""
        self._collect_leftovers()
        asked = self._usable(which)
        self._rows["which"][:], self._rows[argument][:] = asked, values
        message = COMMAND.pack(command, step)
        for worker in dict.fromkeys(self._workers.values()):  # the longest first, as they were started
            if asked[worker.members].any():
                self._send(worker, message)
        self._collect(failed_at(step), self._timeout)
        return self._usable(asked)

    def _usable(self, which: Array) -> Array:
        """Returns `which` without the environments that failed or must be brought back first."""
        usable = which.copy()
        usable[[*self._failed, *self._restarted]] = False
        return usable

    def _results(self, rows: Array, *names: str) -> list[Array]:
        """Copies results, because the next command overwrites them; they are zeros where `rows` is false."""
        copies = [self._rows[name].copy() for name in names]
        if not rows.all():
            for copy in copies:
                copy[~rows] = 0
        return copies

    def _faults(self, which: Array) -> Faults:
        """Returns what has gone wrong since the last call, and earlier failures of the environments in `which`."""
        failed = {
            place: sentence for place, sentence in self._failed.items() if which[place] or place in self._newly_failed
        }
        faults = Faults(failed, frozenset(self._restarted))
        self._newly_failed.clear()
        self._restarted.clear()
        return faults

    def _fail(self, place: int, sentence: str) -> None:
        if place not in self._failed:
            self._failed[place] = sentence
            self._newly_failed.add(place)
            self._restarted.discard(place)

    def _send(self, worker: Worker, message: bytes) -> None:
        self._waiting.add(worker)
        with suppress(OSError):  # its end is noticed while waiting for its answer
            worker.child.connection.send_bytes(message)

    def _collect_leftovers(self) -> None:
        """Waits for answers to a command that was interrupted."""
        if self._waiting:
            self._collect("failed during an interrupted call", self._timeout)

    def _collect(self, what: str, timeout: float) -> None:
        """Waits for all answers; replaces workers that do not give one. `what` the environments did, for messages."""
        deadline = time.monotonic() + timeout
        while self._waiting:
            left = deadline - time.monotonic()
            ready = self._selector.select(min(left, LIVENESS_SECONDS))
            for key, _ in ready:
                worker: Worker = key.data
                try:
                    answer = worker.child.connection.recv_bytes()
                except (EOFError, OSError):
                    why = worker.child.how_it_ended(CLOSING_SECONDS)  # its pipe may end a moment before it does
                    self._replace(worker, what, why or "its process stopped unexpectedly")
                    deadline = time.monotonic() + timeout + MAKING_SECONDS
                    continue
                self._waiting.discard(worker)
                if answer:
                    for place, sentence in pickle.loads(answer).items():
                        self._fail(place, sentence)
            if not ready:
                for worker in list(self._waiting):
                    why = worker.child.how_it_ended()
                    if why or left <= LIVENESS_SECONDS:
                        self._replace(worker, what, why or f"it did not answer for {timeout:,.0f} seconds")
                        deadline = time.monotonic() + timeout + MAKING_SECONDS

    def _replace(self, worker: Worker, what: str, why: str) -> None:
        """Ends a worker; the environment that it was calling has failed, the others are made again in a new one."""
        at_work = worker.at_work[0]
        for member in worker.members if at_work == IDLE else [worker.members[at_work]]:
            self._fail(member, fault_sentence(self.names[member], what, why))
        self._end(worker)
        innocent = [member for member in worker.members if member not in self._failed]
        if innocent:
            self._restarted |= set(innocent)
            self._start(innocent)

    def _end(self, worker: Worker, timeout: float = 0.0) -> None:
        self._selector.unregister(worker.child.connection)
        self._waiting.discard(worker)
        for member in worker.members:
            del self._workers[member]
        worker.child.end(timeout)


def processes_worth(seconds: Sequence[float], cores: int) -> int:
    """Returns how many processes step environments fastest, given the seconds per step of each; 0 for none but ours."""

    def duration(processes: int) -> float:
        if processes == 0:
            return sum(seconds)
        busiest = max(sum(seconds[i] for i in members) for members in _spread(seconds, processes))
        return OVERHEAD + processes * OVERHEAD_PER_PROCESS + busiest

    return min(range(cores + 1), key=duration)


def refuse_changed_spaces(name: str, expected: Spec, found: Spec) -> None:
    """Refuses an environment that looks different from the one that was probed."""
    if found != expected:
        raise MRQError(f"the environment of {name} has different spaces each time it is made; give it the same ones.")


def _spread(seconds: Sequence[float], processes: int) -> list[list[int]]:
    """Returns the members of each process: longest steps first, each to the process with the least load."""
    members: list[list[int]] = [[] for _ in range(min(processes, len(seconds)))]
    loads = [(0.0, 0, process) for process in range(len(members))]  # a heap: seconds, environments, process
    for index in sorted(range(len(seconds)), key=lambda i: -seconds[i]):
        load, count, process = loads[0]
        heapq.heapreplace(loads, (load + seconds[index], count + 1, process))
        members[process].append(index)
    return members


def _row(spec: Spec) -> np.dtype[Any]:
    """Returns the layout of one environment's part of the shared memory."""
    fields = [
        ("which", bool),
        ("seed", np.int64),
        ("action", np.float32, (spec.action_size,)),
        ("frame", spec.frame_dtype, spec.frame_shape),
        ("reward", np.float32),
        ("terminated", bool),
        ("truncated", bool),
    ]
    return np.dtype(fields, align=True)


def _rows(memory: Any, spec: Spec) -> dict[str, Array]:
    """Returns the shared memory by field, each (environments, …)."""
    rows = np.frombuffer(memory, _row(spec))
    return {name: rows[name] for name in rows.dtype.names or ()}


def _work(pipe: Pipe, assignment: Assignment) -> None:
    """Runs in the child: makes its environments, then serves them until the parent closes the pipe or ends."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(multiprocessing.current_process().name)  # for ps and top
    try:
        environments = _make(assignment)
    except MRQError as error:
        pipe.send_bytes(pickle.dumps({assignment.members[assignment.at_work[0]]: str(error)}))
        return
    with suppress(EOFError, OSError):  # the parent has ended
        pipe.send_bytes(b"")
        _serve(pipe, environments, assignment)
    environments.close()


def _make(assignment: Assignment) -> LocalEnvironments:
    made, names = [], [assignment.names[i] for i in assignment.members]
    for place, member in enumerate(assignment.members):
        assignment.at_work[0] = place
        recipe, spec = assignment.recipes[member], assignment.specs[member]
        made.append(CheckedEnvironment(recipe.make_one(), recipe.options, spec.masked))
        refuse_changed_spaces(names[place], spec, made[-1].spec)
    at_work = np.frombuffer(assignment.at_work, np.int64)
    at_work[0] = IDLE
    return LocalEnvironments(made, names, at_work)


def _serve(pipe: Pipe, environments: LocalEnvironments, assignment: Assignment) -> None:
    members, rows = assignment.members, _rows(assignment.memory, common_spec(assignment.specs, assignment.names))
    frames = rows["frame"][:, : environments.spec.frame_shape[0]]  # the rows hold the largest frame of all processes
    while True:
        message = pipe.recv_bytes()
        command, number = COMMAND.unpack_from(message)
        if command == STEP:
            step, faults = environments.step(rows["which"][members], rows["action"][members], number)
            rows["reward"][members] = step.rewards
            rows["terminated"][members] = step.terminated
            rows["truncated"][members] = step.truncated
            frames[members] = step.next_frames
        elif command == RESET:
            seeds = rows["seed"][members].tolist()
            frames[members], faults = environments.reset(rows["which"][members], seeds, number)
        elif command == REPLAY:
            actions = np.frombuffer(message[COMMAND.size :], np.float32).reshape(-1, rows["action"].shape[1])
            frame, faults = environments.replay_episode(members.index(number), int(rows["seed"][number]), actions)
            rows["terminated"][number] = frame is None
            frames[number] = 0 if frame is None else frame
        else:
            return
        failed = {members[place]: sentence for place, sentence in faults.failed.items()}
        pipe.send_bytes(pickle.dumps(failed) if failed else b"")
