"""P environments stepped together in processes of their own: what stepping.py does, on all cores.

Actions and results lie in shared memory, one row an environment; the pipes only say when. When a process dies or hangs,
the environment it was working on has failed. The others it held are made anew in another process and are `restarted`:
their results are zeros, and whoever asked must bring them back to where they were and ask again.
"""

import atexit
import heapq
import multiprocessing
import pickle
import selectors
import struct
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mrq.environments.children import (
    CLOSING_SECONDS,
    LOOKING_UP,
    MAKING_SECONDS,
    begin_as_a_child,
    how_it_ended,
    starting_a_child,
)
from mrq.environments.guarded import Guarded
from mrq.environments.making import make_environment
from mrq.environments.stepping import NOBODY, Environments, failed_at, fault_sentence
from mrq.errors import MRQError
from mrq.interface import Array, Spec, Transitions, common_spec

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

# Seconds that a step in processes takes beyond the environments' own, at all and for each process.
WAKING, TELLING = 0.0001, 0.00005
COMMAND = struct.Struct("=cq")  # what to do, and at which step, or with which environment
RESET, STEP, REPLAY, CLOSE = b"r", b"s", b"p", b"c"


class Assignment(NamedTuple):
    """What a child is told when it starts."""

    members: list[int]  # which of the environments are its own
    tasks: Sequence[str]
    names: Sequence[str]
    specs: Sequence[Spec]
    memory: Any  # shared by all: see _rows
    at_work: Any  # shared with the parent: the place among its members that the child is at


@dataclass(eq=False)
class Child:
    process: SpawnProcess
    connection: "Connection[Any, Any]"
    members: list[int]
    at_work: Any


class Workers:
    """Like Environments; `seconds` are what a step of each takes, `timeout` what a process may take to answer."""

    def __init__(
        self,
        tasks: Sequence[str],
        names: Sequence[str],
        specs: Sequence[Spec],
        seconds: Sequence[float],
        processes: int,
        timeout: float,
    ) -> None:
        self.names, self.specs, self.spec = names, specs, common_spec(specs, names)
        self.failed: dict[int, str] = {}  # what went wrong, by agent; it is not called again
        self.restarted: set[int] = set()
        self._tasks, self._seconds, self._timeout = tasks, seconds, timeout
        self._memory = RawArray("b", _row(self.spec).itemsize * len(tasks))
        self._rows = _rows(self._memory, self.spec)
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, Child] = {}  # by agent; without those that are lost
        self._waiting: set[Child] = set()  # have not answered yet
        atexit.register(self.close)  # before multiprocessing would wait for children that do not hear its SIGTERM
        try:
            for members in _spread(seconds, processes):
                self._start(members)
            self._collect("could not be made", timeout + MAKING_SECONDS)
            if self.failed:
                raise MRQError(next(iter(self.failed.values())))
        except BaseException:
            self.close()
            raise

    def reset(self, which: Array, seeds: Sequence[int], step: int) -> Array:
        """First frames (agents, *frame_shape) for the agents where `which` is true; zeros for the others."""
        begun = self._ask(RESET, which, step, "seed", seeds)
        return self._results(begun, "frame")[0]

    def step(self, which: Array, actions: Array, step: int) -> Transitions:
        """Steps the agents where `which` is true; zeros for the others."""
        stepped = self._ask(STEP, which, step, "action", actions)
        return Transitions(actions, *self._results(stepped, "reward", "terminated", "truncated", "frame"))

    def replay_episode(self, agent: int, seed: int, actions: Array) -> Array | None:
        """Brings an environment back by playing its episode again; its last frame, or None where it ended early."""
        self._collect_leftovers()
        if agent in self.failed:
            return None
        self._rows["seed"][agent] = seed
        child = self._children[agent]
        self._send(child, COMMAND.pack(REPLAY, agent), np.asarray(actions, np.float32).tobytes())
        timeout = self._timeout + 10 * self._seconds[agent] * len(actions)  # one answer for many steps
        self._collect("failed while its episode was played again", timeout)
        if agent in self.failed or self._rows["terminated"][agent]:
            return None
        frame: Array = self._rows["frame"][agent].copy()
        return frame

    def close(self) -> None:
        """Also after a fault or an interrupt, and again."""
        atexit.unregister(self.close)
        children = set(self._children.values())
        for child in children:
            self._send(child, COMMAND.pack(CLOSE, 0))
        deadline = time.monotonic() + CLOSING_SECONDS
        for child in children:
            child.process.join(max(0, deadline - time.monotonic()))
            self._dismiss(child)
        self._selector.close()

    def _start(self, members: list[int]) -> None:
        here, there = multiprocessing.Pipe()
        at_work = RawArray("q", [NOBODY])
        assignment = Assignment(members, self._tasks, self.names, self.specs, self._memory, at_work)
        process = multiprocessing.get_context("spawn").Process(
            target=_work,
            args=(there, assignment),
            name=", ".join(dict.fromkeys(self._tasks[member] for member in members)),
            daemon=True,
        )
        with starting_a_child():
            process.start()
        there.close()  # so that the end of the child is the end of the pipe
        child = Child(process, here, members, at_work)
        self._children |= dict.fromkeys(members, child)
        self._waiting.add(child)
        self._selector.register(here, selectors.EVENT_READ, child)

    def _ask(self, command: bytes, which: Array, step: int, argument: str, values: Array | Sequence[int]) -> Array:
        """Has the environments where `which` is true do it; where they did."""
        self._collect_leftovers()
        asked = self._without_failed(which)
        self._rows["which"][:], self._rows[argument][:] = asked, values
        message = COMMAND.pack(command, step)
        for child in dict.fromkeys(self._children.values()):  # the longest first, as they were started
            if asked[child.members].any():
                self._send(child, message)
        self._collect(failed_at(step), self._timeout)
        return self._without_failed(asked, self.restarted)

    def _results(self, rows: Array, *names: str) -> list[Array]:
        """Copies, since the next command writes over the rows; zeros where `rows` is false."""
        copies = [self._rows[name].copy() for name in names]
        if not rows.all():
            for copy in copies:
                copy[~rows] = 0
        return copies

    def _without_failed(self, which: Array, restarted: Iterable[int] = ()) -> Array:
        left = which.copy()
        left[[*self.failed, *restarted]] = False
        return left

    def _send(self, child: Child, *messages: bytes) -> None:
        self._waiting.add(child)
        with suppress(OSError):  # its end will be noticed when its answer is waited for
            for message in messages:
                child.connection.send_bytes(message)

    def _collect_leftovers(self) -> None:
        """An interrupt may have left the answers to the last command behind."""
        if self._waiting:
            self._collect("failed at an interrupt", self._timeout)

    def _collect(self, what: str, timeout: float) -> None:
        """Waits for all answers; a child that does not give one is lost. `what` its environments did, for messages."""
        deadline = time.monotonic() + timeout
        while self._waiting:
            left = deadline - time.monotonic()
            ready = self._selector.select(min(left, LOOKING_UP))
            for key, _ in ready:
                try:
                    answer = key.data.connection.recv_bytes()
                except (EOFError, OSError):
                    key.data.process.join(CLOSING_SECONDS)  # its pipe may end a moment before it does
                    self._lose(key.data, what, "its process broke off")
                    deadline = time.monotonic() + timeout + MAKING_SECONDS
                    continue
                self._waiting.discard(key.data)
                if answer:
                    self.failed |= pickle.loads(answer)
            if not ready:
                for child in list(self._waiting):
                    if left <= LOOKING_UP or how_it_ended(child.process):
                        self._lose(child, what, f"it did not answer for {timeout:,.0f} seconds")
                        deadline = time.monotonic() + timeout + MAKING_SECONDS

    def _lose(self, child: Child, what: str, why: str) -> None:
        why = how_it_ended(child.process) or why
        at_work = child.at_work[0]
        for member in child.members if at_work == NOBODY else [child.members[at_work]]:
            self.failed.setdefault(member, fault_sentence(self.names[member], what, why))
        self._dismiss(child)
        innocent = [member for member in child.members if member not in self.failed]
        if innocent:
            self.restarted |= set(innocent)
            self._start(innocent)

    def _dismiss(self, child: Child) -> None:
        self._selector.unregister(child.connection)
        self._waiting.discard(child)
        for member in child.members:
            del self._children[member]
        child.process.kill()
        child.process.join()
        child.process.close()
        child.connection.close()


AnyEnvironments = Environments | Workers  # their common parts are what training uses


def processes_worth(seconds: Sequence[float], cores: int) -> int:
    """How many processes step environments the fastest whose steps take `seconds` each; 0 for none but ours."""

    def duration(processes: int) -> float:
        if processes == 0:
            return sum(seconds)
        busiest = max(sum(seconds[i] for i in members) for members in _spread(seconds, processes))
        return WAKING + processes * TELLING + busiest

    return min(range(cores + 1), key=duration)


def refuse_changed_spaces(name: str, expected: Spec, found: Spec) -> None:
    if found != expected:
        raise MRQError(f"the environment of {name} changes its spaces each time it is made; give it the same ones.")


def _spread(seconds: Sequence[float], processes: int) -> list[list[int]]:
    """The members of each process: longest first, onto the least loaded."""
    members: list[list[int]] = [[] for _ in range(min(processes, len(seconds)))]
    loads = [(0.0, 0, process) for process in range(len(members))]  # seconds and environments: a heap
    for index in sorted(range(len(seconds)), key=lambda i: -seconds[i]):
        load, count, process = loads[0]
        heapq.heapreplace(loads, (load + seconds[index], count + 1, process))
        members[process].append(index)
    return members


def _row(spec: Spec) -> np.dtype[Any]:
    """One environment's part of the shared memory."""
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
    """The shared memory by field, each (agents, ...)."""
    rows = np.frombuffer(memory, _row(spec))
    return {name: rows[name] for name in rows.dtype.names or ()}


def _work(connection: "Connection[Any, Any]", assignment: Assignment) -> None:
    """The child: makes its environments, then does what it is told until the parent closes or is gone."""
    begin_as_a_child()
    with suppress(OSError):
        Path("/proc/self/comm").write_text(multiprocessing.current_process().name)  # for ps and top
    try:
        environments = _make(assignment)
    except MRQError as error:
        connection.send_bytes(pickle.dumps({assignment.members[assignment.at_work[0]]: str(error)}))
        return
    with suppress(EOFError, OSError):  # the parent is gone
        connection.send_bytes(b"")
        _serve(connection, environments, assignment)
    environments.close()


def _make(assignment: Assignment) -> Environments:
    made, names = [], [assignment.names[i] for i in assignment.members]
    for place, member in enumerate(assignment.members):
        assignment.at_work[0] = place
        made.append(Guarded(make_environment(assignment.tasks[member])))
        refuse_changed_spaces(names[place], assignment.specs[member], made[-1].border.spec)
    at_work = np.frombuffer(assignment.at_work, np.int64)
    at_work[0] = NOBODY
    return Environments(made, names, at_work)


def _serve(connection: "Connection[Any, Any]", environments: Environments, assignment: Assignment) -> None:
    members, rows = assignment.members, _rows(assignment.memory, common_spec(assignment.specs, assignment.names))
    own_part = rows["frame"][:, : environments.spec.frame_shape[0]]  # the rows hold the largest frame of all processes
    told: set[int] = set()  # whose failure the parent knows of
    while True:
        command, number = COMMAND.unpack(connection.recv_bytes())
        if command == STEP:
            step = environments.step(rows["which"][members], rows["action"][members], number)
            rows["reward"][members] = step.rewards
            rows["terminated"][members] = step.terminated
            rows["truncated"][members] = step.truncated
            own_part[members] = step.next_frames
        elif command == RESET:
            own_part[members] = environments.reset(rows["which"][members], rows["seed"][members].tolist(), number)
        elif command == REPLAY:
            actions = np.frombuffer(connection.recv_bytes(), np.float32).reshape(-1, rows["action"].shape[1])
            frame = environments.replay_episode(members.index(number), int(rows["seed"][number]), actions)
            rows["terminated"][number] = frame is None
            own_part[number] = 0 if frame is None else frame
        else:
            return
        failed = {members[place]: sentence for place, sentence in environments.failed.items() if place not in told}
        told |= environments.failed.keys()
        connection.send_bytes(pickle.dumps(failed) if failed else b"")
