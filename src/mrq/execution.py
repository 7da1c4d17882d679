"""How work on tensors is run: as it is written, compiled, or captured as a CUDA graph. The code is the same."""

from collections.abc import Callable
from itertools import count
from operator import itemgetter
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

Function = Callable[..., Any]
OnFailure = Callable[[Exception], None]
_numbers = count()
WARM_UP = 3  # calls before a capture: the first compile, and all of them are real
HIGH_PRIORITY = -1  # of a stream


def side_by_side(function: Function) -> Function:
    """A function of one agent for all of them at once: arguments and results get a leading agent axis."""
    mapped = torch.vmap(function)

    def call(*arguments: Any) -> Any:
        return tree_map(torch.Tensor.contiguous, mapped(*arguments))

    return call


def one_by_one(function: Function) -> Function:
    """The same, one agent after the other."""

    def call(*arguments: Any) -> Any:
        agents = range(len(tree_leaves(arguments)[0]))
        results = [function(*tree_map(itemgetter(agent), arguments)) for agent in agents]
        return tree_map(_stacked, *results)

    return call


def _stacked(*tensors: torch.Tensor) -> torch.Tensor:
    """Contiguous, as optimisers expect of gradients; those of convolutions are not."""
    return tensors[0].contiguous()[None] if len(tensors) == 1 else torch.stack(tensors).contiguous()


def compiled(
    function: Function,
    on_failure: OnFailure,
    on_success: Callable[[], None] = lambda: None,
    changes_arguments: bool = False,
) -> Function:
    """A function, compiled when first called, and run as it is where that fails.

    One that changes its arguments must be a single graph, so that compiling has failed before anything is changed.
    """

    def inner(*arguments: Any) -> Any:
        return function(*arguments)

    # PyTorch keeps what it compiled with a function's code, and generalises when that is called in different ways.
    # Code of its own for each keeps functions, and learners, apart.
    inner.__code__ = inner.__code__.replace(co_name=f"inner_{next(_numbers)}")
    chosen, is_new = torch.compile(inner, dynamic=False, fullgraph=changes_arguments), True

    def call(*arguments: Any) -> Any:
        nonlocal chosen, is_new
        if chosen is inner:
            return inner(*arguments)
        try:
            result = chosen(*arguments)
        except Exception as error:
            chosen = inner
            on_failure(error)
            return inner(*arguments)
        if is_new:
            is_new = False
            on_success()
        return result

    return call


class Captured:
    """Work on tensors that stay where they are: after a few calls, one CUDA graph that is replayed.

    Every call does the work once, the first ones too, so that nothing need be undone.
    """

    def __init__(self, work: Callable[[], None], on_failure: OnFailure, priority: int = 0) -> None:
        self.work, self.on_failure = work, on_failure
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        # Libraries set up what they need for a capture, on its stream; what is captured keeps the stream's priority.
        self._side = Side(torch.device("cuda"), priority)

    def __call__(self) -> None:
        if self._graph is not None:
            self._graph.replay()
            return
        self._calls += 1
        if self._calls == WARM_UP + 1 and self._capture():
            return self()
        self._warm_up()

    def _warm_up(self) -> None:
        self._side.follow()
        with self._side.work():
            self.work()
        self._side.join()

    def _capture(self) -> bool:
        graph = torch.cuda.CUDAGraph()
        try:
            # Other threads may go on using the device: they draw noise.
            with torch.cuda.graph(graph, stream=self._side.stream, capture_error_mode="thread_local"):
                self.work()
        except Exception as error:
            self.on_failure(error)
            return False
        self._graph = graph
        return True


class Side:
    """A GPU's stream beside the current one, for work that need not wait its turn. A CPU does all in order."""

    def __init__(self, device: torch.device, priority: int = 0) -> None:
        self.stream = torch.cuda.Stream(device, priority) if device.type == "cuda" else None

    def work(self) -> torch.cuda.StreamContext:
        """What is done inside runs on this stream."""
        return torch.cuda.stream(self.stream)

    def follow(self) -> None:
        """What it is given from now on comes after what the current stream has been given."""
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream())

    def join(self) -> None:
        """What the current stream is given from now on comes after what this one has been given."""
        if self.stream is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
