"""How work on tensors is run: as it is written, compiled, or captured as a CUDA graph. The code is the same."""

from collections.abc import Callable
from typing import Any

import torch

WARM_UP = 3  # calls before a capture: the first compile, and all of them are real


class Compiled:
    """A function that changes nothing itself: compiled when first called, and run as it is where that fails."""

    def __init__(self, function: Callable[..., Any], on_failure: Callable[[], None]) -> None:
        self.function, self.on_failure = function, on_failure
        self._compiled: Callable[..., Any] | None = torch.compile(function)

    def __call__(self, *arguments: Any) -> Any:
        if self._compiled is not None:
            try:
                return self._compiled(*arguments)
            except Exception:
                self._compiled = None
                self.on_failure()
        return self.function(*arguments)


class Captured:
    """Work on tensors that stay where they are: after a few calls, one CUDA graph that is replayed.

    Every call does the work once, the first ones too, so that nothing need be undone.
    """

    def __init__(self, work: Callable[[], None], on_failure: Callable[[], None]) -> None:
        self.work, self.on_failure = work, on_failure
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        if self._graph is not None:
            self._graph.replay()
            return
        self._calls += 1
        if self._calls == WARM_UP + 1 and self._capture():
            return self()
        self._warm_up()

    def _warm_up(self) -> None:
        """On a stream of its own, as captures are, so that libraries set up what they need for one."""
        stream, current = torch.cuda.Stream(), torch.cuda.current_stream()
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            self.work()
        current.wait_stream(stream)

    def _capture(self) -> bool:
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self.work()
        except Exception:
            self.on_failure()
            return False
        self._graph = graph
        return True
