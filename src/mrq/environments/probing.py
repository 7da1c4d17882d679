"""What a task looks like and how long its steps take, found out by trying: before anything is trained or written."""

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
from mrq.environments.making import Environment, make_environment
from mrq.environments.spaces import Fault
from mrq.errors import MRQError
from mrq.interface import Spec

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

TRIED_STEPS = 20


@dataclass(frozen=True)
class Probe:
    spec: Spec
    spaces: dict[str, str]
    seconds: float  # of a step


def probe(tasks: Sequence[str], timeout: float) -> dict[str, Probe]:
    """What every task looks like; refuses one that does not work, or takes `timeout` seconds too long."""
    probes = {}
    for task, result in trials(tasks, timeout):
        if isinstance(result, MRQError):
            raise result
        probes[task] = result
    return probes


def trials(tasks: Sequence[str], timeout: float) -> Iterator[tuple[str, Probe | MRQError]]:
    """Tries every task in a process of its own, as many side by side as there are cores."""
    cores = len(os.sched_getaffinity(0))
    for start in range(0, len(tasks), cores):
        together = {task: _Trial(task) for task in tasks[start : start + cores]}
        try:
            for task, trial in together.items():
                yield task, trial.result(timeout + MAKING_SECONDS)
        finally:
            deadline = time.monotonic() + CLOSING_SECONDS
            for trial in together.values():
                trial.end(max(0, deadline - time.monotonic()))


class _Trial:
    def __init__(self, task: str) -> None:
        self.task = task
        self._here, there = multiprocessing.Pipe(duplex=False)
        self._process = multiprocessing.get_context("spawn").Process(target=_try, args=(there, task), daemon=True)
        with starting_a_child():
            self._process.start()
        there.close()  # so that the end of the process is the end of the pipe

    def result(self, timeout: float) -> Probe | MRQError:
        deadline = time.monotonic() + timeout
        try:
            while not self._here.poll(LOOKING_UP):
                if time.monotonic() > deadline:
                    return MRQError(f"the environment of {self.task} did not answer for {timeout:,.0f} seconds.")
                if how_it_ended(self._process) and not self._here.poll():
                    raise EOFError
            result: Probe | MRQError = self._here.recv()
        except EOFError:
            self._process.join()
            return MRQError(f"the environment of {self.task} does not work: {how_it_ended(self._process)}.")
        return result

    def end(self, timeout: float) -> None:
        self._process.join(timeout)  # it closes its environment
        self._process.kill()
        self._process.join()
        self._here.close()


def _try(connection: "Connection[Any, Any]", task: str) -> None:
    """In the process."""
    begin_as_a_child()
    environment = None
    result: Probe | MRQError
    try:
        environment = Guarded(make_environment(task))
        result = try_out(environment, task)
    except MRQError as error:
        result = MRQError(str(error))
    with suppress(OSError):  # the parent is gone
        connection.send(result)
    if environment is not None:
        environment.close()
    os._exit(0)  # what else the environment does at its end is no matter of the trial


def try_out(environment: Guarded, task: str) -> Probe:
    spec = environment.border.spec
    action = np.eye(spec.action_size, dtype=np.float32)[0] if spec.discrete else np.zeros(spec.action_size, np.float32)
    seconds = []
    try:
        environment.reset(0)
        for _ in range(TRIED_STEPS):
            began = time.perf_counter()
            _, _, terminated, truncated = environment.step(action)
            seconds.append(time.perf_counter() - began)
            if terminated or truncated:
                environment.reset(0)
    except Fault as fault:
        raise MRQError(f"the environment of {task} does not work: {fault}.") from fault
    return Probe(spec, describe_spaces(environment.environment), float(np.median(seconds)))


def describe_spaces(environment: Environment) -> dict[str, str]:
    return {"observation": repr(environment.observation_space), "action": repr(environment.action_space)}
