"""DrQ-v2 as CUDA graphs. Run by hand where there is a GPU: pytest -m gpu"""

from functools import partial

import pytest
import torch

from tests.algorithms.drqv2.pixels import SMALL, MovingColumn
from tests.training.populations import accelerated, advance, assert_alike, failed, fleet, population

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
    pytest.mark.filterwarnings("ignore:.*out of date"),
]
GPU = torch.device("cuda")
FLEET = (MovingColumn, partial(MovingColumn, actions=3))


def made(overlap=False):
    return fleet(FLEET, (3, 4), SMALL, device=GPU, overlap=overlap)


def compare(first, second, steps):
    for agents in (first, second):
        advance(agents, steps)
    for agent in range(2):
        assert_alike(first.state_of(agent), second.state_of(agent))


@pytest.mark.parametrize("overlap", [False, True])
def test_captured_is_eager(overlap, full_precision, uncompiled):
    captured = accelerated(made(overlap))
    compare(captured, made(overlap), steps=40)
    assert all(work.captured for work in captured.works)
    assert len(captured.replay.actions[0, :40].unique()) > 20  # each replayed graph uses noise of its own


def test_compiled_is_eager(full_precision):
    # After one update: Adam turns rounding of the smallest gradients into whole steps, which ReLU then amplifies.
    compare(accelerated(made()), made(), steps=SMALL.random_steps + 1)


def test_compiled_and_captured_is_compiled(full_precision):
    compiled, captured = made(), accelerated(made())
    for work in compiled.works:
        work.compile(failed)
    compare(captured, compiled, steps=40)
    assert all(work.captured for work in captured.works)


def test_each_agent_of_a_captured_fleet_equals_its_task_alone(full_precision, uncompiled):
    together = accelerated(fleet(FLEET, (0, 1), SMALL, device=GPU))
    advance(together, 40)
    for agent, make in enumerate(FLEET):
        alone = accelerated(population(make, (agent,), SMALL, device=GPU))
        advance(alone, 40)
        assert_alike(together.state_of(agent), alone.state_of(0))


def test_gpu_and_cpu_agree(full_precision, uncompiled):
    here, there = (population(MovingColumn, (0,), SMALL, device=device) for device in (torch.device("cpu"), GPU))
    for agents in (here, there):
        advance(agents, SMALL.random_steps + 1)
    assert_alike(there.state_of(0), here.state_of(0))


def test_bf16_trains():
    agents = accelerated(population(MovingColumn, (0,), SMALL, device=GPU, dtype=torch.bfloat16))
    advance(agents, 30)
    assert all(metric.isfinite().all() for metric in agents.learner.metrics.values())
    assert all(tensor.dtype == torch.float32 for tensor in agents.learner.state_of(0)[0].values())
