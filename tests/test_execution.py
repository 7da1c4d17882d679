"""How work is compiled, and what happens where that fails."""

import shutil

import pytest
import torch

from mrq.execution import compiled


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
        x, complaints = torch.zeros(3), []
        call = compiled(function, complaints.append, changes_arguments=True)
        for expected in (2, 4):
            call(x)
            assert x.tolist() == [expected] * 3
        assert len(complaints) == failures
