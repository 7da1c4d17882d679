"""How work on tensors is run: as written, compiled, or captured as a CUDA graph. No other module knows."""

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from operator import itemgetter
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from mrq.processes import only_installed_modules

OnFailure = Callable[[Exception], None]
OnSuccess = Callable[[], None]
_numbers = count()
WARM_UP = 3  # calls before a capture: the first one compiles, and all of them do real work
HIGH_PRIORITY = -1  # of a stream


class Function:
    """A function of tensors that runs as written or, after `compile`, compiled."""

    def __init__(self, function: Callable[..., Any], *, each: bool = False, changes_arguments: bool = False) -> None:
        """With `each`, `function` is that of one agent, and is called for one agent after the other.

        A function that changes its arguments must compile to a single graph, so that compiling fails before anything
        is changed.
        """
        self._function, self._each, self._changes_arguments = function, each, changes_arguments
        self._compiled: Callable[..., Any] | None = None
        self._on_failure: OnFailure = _ignore
        self._on_success: OnSuccess | None = None  # until the compiled function ran once

    def __call__(self, *arguments: Any) -> Any:
        return _one_by_one(self._run, arguments) if self._each else self._run(*arguments)

    @property
    def compiled(self) -> bool:
        return self._compiled is not None

    def compile(self, on_failure: OnFailure, on_success: OnSuccess) -> None:
        """Compiles the function when it is next called; where that fails, it runs as written."""
        function = self._function

        def plain(*arguments: Any) -> Any:
            return function(*arguments)

        # PyTorch keeps what it compiled with a function's code, and generalises when that code is called in different
        # ways. Separate code objects keep functions, and learners, apart.
        plain.__code__ = plain.__code__.replace(co_name=f"plain_{next(_numbers)}")
        self._compiled = torch.compile(plain, dynamic=False, fullgraph=self._changes_arguments)
        self._on_failure, self._on_success = on_failure, on_success

    def _run(self, *arguments: Any) -> Any:
        if self._compiled is None:
            return self._function(*arguments)
        try:
            with only_installed_modules():  # compiling starts other processes
                result = self._compiled(*arguments)
        except Exception as error:
            self._compiled = None
            self._on_failure(error)
            return self._function(*arguments)
        if self._on_success is not None:
            self._on_success()
            self._on_success = None
        return result


def _ignore(error: Exception) -> None:
    """Is replaced by `compile`."""


def nothing() -> None:
    """Does nothing."""


def over_agents(
    function: Callable[..., Any],
    one_by_one: bool,  # rather than side by side
    as_written: bool = False,  # one by one until it is compiled
) -> Function:
    """Makes a function of one agent one of all agents: arguments and results get a leading agent axis."""
    if one_by_one:
        return Function(function, each=True)
    mapped = torch.vmap(function)

    def over_all(*arguments: Any) -> Any:
        exporting = torch.compiler.is_exporting()  # vmap would fix the number of states
        if exporting or (as_written and not being_compiled()):
            return _one_by_one(function, arguments)
        return tree_map(torch.Tensor.contiguous, mapped(*arguments))

    return Function(over_all)


def _one_by_one(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    agents = range(len(tree_leaves(arguments)[0]))
    results = [function(*tree_map(itemgetter(agent), arguments)) for agent in agents]
    return tree_map(_stacked, *results)


def _stacked(*tensors: torch.Tensor) -> torch.Tensor:
    """Stacks contiguously, as optimisers expect of gradients; those of convolutions are not contiguous."""
    return tensors[0].contiguous()[None] if len(tensors) == 1 else torch.stack(tensors).contiguous()


class Work:
    """A piece of device work on tensors that stay where they are. It takes no arguments and returns nothing.

    It runs as written; after `compile` the functions it calls run compiled; after `capture` the whole is recorded as a
    CUDA graph, once it is warm, and replayed. Every call does the work exactly once, so nothing ever has to be undone.
    `run` must not hold the object that holds the Work: the cycle would keep its device memory alive.
    """

    def __init__(
        self, name: str, run: Callable[[], None], functions: Sequence[Function] = (), priority: int = 0
    ) -> None:
        self.name, self.functions = name, functions
        self.seconds = 0.0  # spent since `measure`
        self._run, self._priority = run, priority
        self._wait: Callable[[], None] | None = None
        self._on_failure: OnFailure | None = None  # None: not to be captured
        self._graph: torch.cuda.CUDAGraph | None = None
        self._calls = 0

    def __call__(self) -> None:
        if self._wait is None:
            return self._do()
        self._wait()
        began = time.perf_counter()
        self._do()
        self._wait()
        self.seconds += time.perf_counter() - began

    @property
    def captured(self) -> bool:
        """Whether calls replay a CUDA graph."""
        return self._graph is not None

    def compile(self, on_failure: OnFailure, on_success: OnSuccess = nothing) -> None:
        """Compiles the functions that are not compiled yet."""
        for function in self.functions:
            if not function.compiled:
                function.compile(on_failure, on_success)

    def capture(self, on_failure: OnFailure) -> None:
        """Records the work as a CUDA graph after a few more calls; where that fails, it runs as before."""
        self._on_failure, self._calls, self._graph = on_failure, 0, None
        # Libraries set up what a capture needs on its stream, and what is captured keeps the stream's priority.
        self._side = SideStream(torch.device("cuda"), self._priority)

    def renew(self) -> None:
        """Records the work again, since tensors that it uses have moved."""
        if self._on_failure is not None:
            self.capture(self._on_failure)

    def measure(self, wait: Callable[[], None]) -> None:
        """Times every call from now on, with `wait` waiting for the device before and after it."""
        self._wait, self.seconds = wait, 0.0

    def _do(self) -> None:
        if self._graph is not None:
            self._graph.replay()
        elif self._on_failure is None:
            self._run()
        else:
            self._calls += 1
            if self._calls == WARM_UP + 1 and self._record(self._on_failure):
                return self._do()
            self._side.follow()
            with self._side.work():
                self._run()
            self._side.join()

    def _record(self, on_failure: OnFailure) -> bool:
        graph = torch.cuda.CUDAGraph()
        try:
            # Other threads keep using the device: they draw noise.
            with torch.cuda.graph(graph, stream=self._side.stream, capture_error_mode="thread_local"):
                self._run()
        except Exception as error:
            on_failure(error)
            return False
        self._graph = graph
        return True


def accelerate(
    works: Iterable[Work],
    device: torch.device,
    on_failure: OnFailure,
    on_success: OnSuccess = nothing,
) -> None:
    """Compiles the works' functions and, on a GPU, captures each work whole."""
    for work in works:
        work.compile(on_failure, on_success)
        if device.type == "cuda":
            work.capture(on_failure)


def being_compiled() -> bool:
    """Says whether PyTorch's compiler is looking at the code that calls this."""
    return torch.compiler.is_compiling()


def can_compile(device: torch.device) -> bool:
    """Finds out whether there is a working compiler."""
    try:
        with only_installed_modules():
            torch.compile(lambda x: x + 1)(torch.ones(8, device=device))
    except Exception:
        return False
    return True


def widest_float(device: torch.device) -> torch.dtype:
    """Returns the most precise type of numbers that a device has: Apple's GPUs have no float64."""
    return torch.float32 if device.type == "mps" else torch.float64


class SideStream:
    """A GPU stream beside the current one, for work that need not wait its turn. A CPU does everything in order."""

    def __init__(self, device: torch.device, priority: int = 0) -> None:
        self.stream = torch.cuda.Stream(device, priority) if device.type == "cuda" else None

    def work(self) -> torch.cuda.StreamContext:
        """Runs on this stream what is done inside the context."""
        return torch.cuda.stream(self.stream)

    def follow(self) -> None:
        """Makes what this stream gets from now on wait for what the current stream has so far."""
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream())

    def join(self) -> None:
        """Makes what the current stream gets from now on wait for what this stream has so far."""
        if self.stream is not None:
            torch.cuda.current_stream().wait_stream(self.stream)


class Exchange:
    """Where host and device meet at every step: what agents see, and what they do, at addresses that never change.

    On an NVIDIA GPU both lie in pinned host memory, which the device reads and writes without holding the host up.
    """

    def __init__(
        self,
        device: torch.device,
        observations: tuple[int, ...],  # (agents, copies, history, *frame_shape), for each agent's environments
        observation_dtype: torch.dtype,
        actions: tuple[int, ...],  # (agents, copies, action_size)
    ) -> None:
        on_gpu = device.type == "cuda"
        self.observations = torch.zeros(observations, dtype=observation_dtype, pin_memory=on_gpu)
        self.actions = torch.zeros(actions, pin_memory=on_gpu)
        self._written = torch.cuda.Event() if on_gpu else None
        self._is_apples = device.type == "mps"

    def actions_will_be_written(self) -> None:
        """Marks the end of the work that writes the actions; it was just given to the current stream."""
        if self._written is not None:
            self._written.record()

    def wait_for_actions(self) -> None:
        """Waits until the device has written the actions."""
        if self._written is not None:
            self._written.synchronize()
        elif self._is_apples:
            torch.mps.synchronize()
