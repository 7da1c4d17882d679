"""The captured path: whole updates as CUDA graphs. Run by hand where there is a GPU: pytest -m gpu"""

import gc
from dataclasses import replace

import gymnasium as gym
import pytest
import torch

from mrq.replay import allocation
from mrq.training.loop import step, update
from tests.environments_for_tests import Counting, Pixels
from tests.training.populations import (
    FLEETS,
    KINDS,
    advance,
    assert_alike,
    assert_equal,
    fleet,
    never,
    population,
)
from tests.training.populations import (
    accelerated as captured,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
    pytest.mark.filterwarnings("ignore:.*out of date"),
]
GPU = torch.device("cuda")


@KINDS
def test_compiled_and_captured_is_eager(make, steps, small, full_precision):
    compare_with_eager(make, steps, small, overlap=True)


@KINDS
def test_captured_without_overlap_is_eager(make, steps, small, full_precision, uncompiled):
    compare_with_eager(make, steps, small, overlap=False)


def compare_with_eager(make, steps, small, overlap):
    eager, fast = (population(make, (3, 4), small, device=GPU, overlap=overlap) for _ in range(2))
    for agents in (eager, captured(fast)):
        advance(agents, steps)
    unused = set() if overlap else {"explore by targets"}
    assert {work.name for work in fast.works if not work.captured} == unused
    for agent in range(2):
        assert_alike(fast.state_of(agent), eager.state_of(agent))


@pytest.mark.parametrize("make", [lambda: gym.make("Pendulum-v1"), lambda: Pixels(episode_steps=7)])
def test_captured_with_several_environments_is_eager(make, small, full_precision, uncompiled):
    eager, fast = (population(make, (3, 4), small, device=GPU, overlap=True, copies=3) for _ in range(2))
    for agents in (eager, captured(fast)):
        advance(agents, 90)
    for agent in range(2):
        assert_alike(fast.state_of(agent), eager.state_of(agent))


@FLEETS
def test_each_agent_of_a_captured_fleet_equals_its_task_alone(makes, small, full_precision, uncompiled):
    together = captured(fleet(makes, tuple(range(len(makes))), small, device=GPU))
    advance(together, 80)
    for agent, make in enumerate(makes):
        alone = captured(population(make, (agent,), small, device=GPU))
        advance(alone, 80)
        assert_alike(together.state_of(agent), alone.state_of(0))


def test_gpu_and_cpu_agree(small, full_precision, uncompiled):
    here, there = (
        population(lambda: gym.make("Pendulum-v1"), (0,), small, device=d) for d in (torch.device("cpu"), GPU)
    )
    for agents in (here, captured(there)):
        advance(agents, 80)
    assert_alike(there.state_of(0), here.state_of(0))


def test_a_captured_agent_learns_on_after_its_replay_grew_and_after_being_loaded(small, full_precision, uncompiled):
    def make():
        return gym.make("Pendulum-v1")

    plain, grown, loaded = (population(make, (0,), small, steps, GPU) for steps in (400, 60, 400))
    advance(captured(plain), 90)
    advance(captured(grown), 60)
    grown.expect(400)
    advance(grown, 30)
    captured(loaded).load_state_of(0, grown.state_of(0))
    for agents in (plain, grown, loaded):
        advance(agents, 15)
    assert_alike(grown.state_of(0), plain.state_of(0))
    assert_alike(loaded.state_of(0), plain.state_of(0))


def test_frames_in_pinned_host_memory_are_sampled_as_those_on_the_device(
    small, full_precision, uncompiled, monkeypatch
):
    gc.collect()
    before = torch.cuda.memory_allocated()
    on_device = captured(population(Pixels, (0, 1), small, device=GPU))
    between = torch.cuda.memory_allocated()
    free = {"cuda": 100_000, "cpu": 1_000_000_000}  # bytes
    monkeypatch.setattr(allocation, "available_memory", lambda device: free[device.type])
    on_host = captured(population(Pixels, (0, 1), small, device=GPU))
    after = torch.cuda.memory_allocated()
    assert (between - before) - (after - between) > on_device.replay.frames.nbytes / 2
    assert on_host.replay.frames.is_cuda
    for agents in (on_device, on_host):
        advance(agents, 62)
    for agent in range(2):
        assert_alike(on_host.state_of(agent), on_device.state_of(agent))


def test_bf16_trains(small):
    agents = captured(population(lambda: gym.make("Pendulum-v1"), (0,), small, device=GPU, dtype=torch.bfloat16))
    advance(agents, 80)
    assert torch.isfinite(agents.learner.agents.metrics).all()


@pytest.mark.parametrize("makes", [(lambda: gym.make("Pendulum-v1"), Counting), (Pixels, Pixels)])
def test_how_far_a_gpu_is_behind_changes_nothing(makes, small, full_precision, uncompiled):
    h = replace(small, random_steps=57, target_period=30)  # new noise is drawn in the middle of a lead, at step 60
    prompt, late = (captured(fleet(makes, (0, 1), h, device=GPU, overlap=True)) for _ in range(2))
    for _ in range(125):
        step(prompt)
        torch.cuda.synchronize()
        update(prompt, never)
        torch.cuda.synchronize()

    def slow(sync_targets):
        def call(*arguments):
            torch.cuda._sleep(50_000_000)  # cycles: 25 ms or more
            sync_targets(*arguments)

        return call

    late.learner.agents.sync_targets = slow(late.learner.agents.sync_targets)
    done, behind = [], 0
    for _ in range(125):
        step(late)
        if late.steps > h.random_steps + 1:  # until then it waits for nothing
            behind = max(behind, sum(not update.query() for update in done))
        torch.cuda._sleep(50_000_000)
        update(late, never)
        done.append(torch.cuda.Event())
        done[-1].record()
    assert h.target_period // 3 - 1 <= behind <= h.target_period // 3
    for agent in range(2):
        assert_equal(late.state_of(agent), prompt.state_of(agent))
