"""How work on tensors is compiled, captured and timed, what happens where that fails, and that it leaves no garbage."""

import gc
import shutil
import time
import weakref
from functools import partial

import numpy as np
import pytest
import torch

from mrq.execution import WARM_UP, Function, Work, nothing, over_agents
from mrq.interface import ReplaySettings, Spec, Transitions
from mrq.replay.buffer import Replay

gpu = pytest.mark.gpu
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


class Complaints(list):
    """Collects what compiling or capturing complains about."""

    def __call__(self, error):
        self.append(str(error))


def unexpected(error):
    raise AssertionError("compiling or capturing failed") from error


@pytest.fixture
def traced(monkeypatch):
    """Compiles without generating code, which is quick; holds a list of the graphs that were made."""
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    return graphs


@pytest.fixture
def no_collector():
    gc.disable()
    yield
    gc.enable()


@pytest.mark.skipif(shutil.which("g++") is None, reason="compiling needs a C++ compiler")
def test_a_function_that_changes_its_arguments_does_so_once_compiled_or_not():
    def add_in_two_graphs(x):
        x += 1
        torch._dynamo.graph_break()
        x += 1

    def add(x):
        x += 1
        x += 1

    for function, failures in ((add, 0), (add_in_two_graphs, 1)):
        x, complaints = torch.zeros(3), Complaints()
        call = Function(function, changes_arguments=True)
        call.compile(complaints, nothing)
        for expected in (2, 4):
            call(x)
            assert x.tolist() == [expected] * 3
        assert len(complaints) == failures
        assert call.compiled == (failures == 0)


@pytest.mark.parametrize("each", [False, True])
def test_where_compiling_fails_a_function_runs_as_written_once_per_call(each, monkeypatch):
    def broken(function, **options):
        def call(*arguments):
            raise RuntimeError("the compiler was killed")

        return call

    def double(x):
        calls.append(x.shape)
        return 2 * x

    monkeypatch.setattr(torch, "compile", broken)
    calls, complaints, successes, function = [], Complaints(), [], Function(double, each=each)
    function.compile(complaints, partial(successes.append, 1))
    assert function.compiled
    for number in (1, 2):
        assert function(torch.ones(2, 3)).tolist() == [[2] * 3] * 2
        assert calls == ([(3,)] * 2 if each else [(2, 3)]) * number
        assert not function.compiled
    assert complaints == ["the compiler was killed"]
    assert not successes


def test_success_is_reported_after_the_first_call_only(traced):
    successes, function = [], Function(lambda x: x + 1)
    function.compile(unexpected, partial(successes.append, 1))
    assert not successes
    for _ in range(3):
        assert function(torch.zeros(2)).tolist() == [1, 1]
    assert successes == [1]
    assert len(traced) == 1


@pytest.mark.parametrize(("one_by_one", "as_written"), [(False, False), (True, False), (False, True)])
def test_a_function_of_one_agent_is_run_over_all_agents(one_by_one, as_written, traced):
    def summed(parameters, x):
        return {"sum": parameters["scale"] * x.sum()}, x.T

    scales, x = torch.tensor([1.0, 10.0]), torch.arange(12.0).reshape(2, 2, 3)
    function = over_agents(summed, one_by_one, as_written)
    for _ in ("as written", "compiled"):
        sums, transposed = function({"scale": scales}, x)
        assert sums["sum"].tolist() == [0 + 1 + 2 + 3 + 4 + 5, 10 * (6 + 7 + 8 + 9 + 10 + 11)]
        assert transposed.tolist() == [[[0, 3], [1, 4], [2, 5]], [[6, 9], [7, 10], [8, 11]]]
        assert transposed.is_contiguous()
        function.compile(unexpected, nothing)
    assert len(traced) == 1


def test_functions_of_the_same_code_are_compiled_apart(traced):
    """PyTorch would otherwise stop compiling that code after a few kinds of arguments."""
    functions = [Function(torch.sin) for _ in range(12)]
    for size, function in enumerate(functions, start=2):
        function.compile(unexpected, nothing)
        function(torch.zeros(size))
    assert len(traced) == 12


def test_work_compiles_its_functions_once(traced):
    x, shared, own = torch.zeros(2), Function(lambda x: x + 1), Function(lambda x: 2 * x)

    def run():
        x.copy_(own(shared(x)))

    work, other = Work("both", run, [shared, own]), Work("other", nothing, [shared])
    for piece in (work, other):
        piece.compile(unexpected)
    for expected in (2, 6, 14):
        work()
        assert x.tolist() == [expected] * 2
    assert len(traced) == 2


def test_work_is_timed_from_when_it_is_asked_for():
    events = []

    def run():
        events.append("run")
        time.sleep(0.02)

    work = Work("sleep", run)
    work()
    assert work.seconds == 0
    work.measure(lambda: events.append("wait"))
    for _ in range(3):
        work()
    assert events == ["run"] + ["wait", "run", "wait"] * 3
    assert 0.06 <= work.seconds < 0.06 + 2
    work.measure(nothing)
    assert work.seconds == 0


@pytest.mark.parametrize("compiled", [False, True])
def test_what_is_dropped_is_freed_without_the_garbage_collector(compiled, traced, no_collector):
    replay = Replay([Spec(numbers=3, continuous=2)] * 2, ReplaySettings(100, 3), 100, torch.device("cpu"))
    everyone, no_one, frames = np.ones(2, bool), np.zeros(2, bool), np.ones((2, 3))
    replay.begin(everyone, frames)
    for _ in range(10):
        replay.append(Transitions(np.ones((2, 2)), np.ones(2), no_one, no_one, frames))
    weights = torch.ones(2, 3)
    function = over_agents(torch.mul, one_by_one=False)

    def run(replay, function, weights):
        windows = replay.sample(torch.rand(2, 8, dtype=torch.float64), range(4))
        weights.copy_(function(weights, windows.states[:, 0, 0]))

    work = Work("sample", partial(run, replay, function, weights), [replay.sample, function])
    if compiled:
        work.compile(unexpected)
    for _ in range(2):
        work()
    assert bool(traced) == compiled
    references = [weakref.ref(thing) for thing in (replay, replay.sample, replay.frames, weights, function, work)]
    del replay, weights, function, work
    assert [reference() for reference in references] == [None] * len(references)


@gpu
@needs_gpu
def test_captured_work_is_done_once_per_call_also_after_its_tensors_moved():
    held = {"x": torch.zeros(1, device="cuda")}
    work = Work("add", lambda: held["x"].add_(1))
    work.capture(unexpected)
    for calls in range(1, WARM_UP + 4):
        work()
        assert held["x"].item() == calls
        assert work.captured == (calls > WARM_UP)
    held["x"] = torch.zeros(1, device="cuda")
    work.renew()
    for calls in range(1, WARM_UP + 4):
        work()
        assert held["x"].item() == calls


@gpu
@needs_gpu
def test_where_capturing_fails_work_runs_as_written_once_per_call():
    x, complaints = torch.zeros(1, device="cuda"), Complaints()

    def run():
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError("the capture broke off")
        x.add_(1)

    work = Work("add", run)
    work.capture(complaints)
    for calls in range(1, WARM_UP + 4):
        work()
        assert x.item() == calls
        assert not work.captured
    assert complaints == ["the capture broke off"]


@gpu
@needs_gpu
def test_captured_work_that_is_dropped_gives_its_memory_back(no_collector):
    torch.zeros(1, device="cuda").add_(1)
    before = torch.cuda.memory_allocated()
    x = torch.zeros(1_000_000, device="cuda")
    work = Work("add", partial(x.add_, 1))
    work.capture(unexpected)
    for _ in range(WARM_UP + 2):
        work()
    assert work.captured
    assert torch.cuda.memory_allocated() >= before + 4_000_000
    del work, x
    assert torch.cuda.memory_allocated() == before
