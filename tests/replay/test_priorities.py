import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mrq.replay.priorities import BLOCK, Priorities

CPU = torch.device("cpu")


def make(agents=1, slots=2 * BLOCK + 10):
    return Priorities(agents, slots, exponent=0.4, minimum=1.0, device=CPU)


def put(priorities, agent, slots, values):
    rows = torch.full((len(slots),), agent)
    priorities.set(rows, torch.tensor(slots), torch.tensor(values))


def test_draws_follow_the_priorities_across_blocks():
    priorities = make(agents=2)
    put(priorities, 0, [3, BLOCK - 1, BLOCK, 2 * BLOCK + 9], [1.0, 2.0, 3.0, 4.0])
    put(priorities, 1, [5], [0.1])
    uniforms = torch.from_numpy(np.random.default_rng(0).random((2, 50_000)))
    slots = priorities.draw(uniforms)
    counts = torch.bincount(slots[0], minlength=2 * BLOCK + 10) / 50_000
    for slot, share in [(3, 0.1), (BLOCK - 1, 0.2), (BLOCK, 0.3), (2 * BLOCK + 9, 0.4)]:
        assert counts[slot].item() == pytest.approx(share, abs=0.01)
    assert counts.sum() == pytest.approx(1)
    assert (slots[1] == 5).all()


def test_the_edges_of_the_unit_interval_draw_real_slots():
    priorities = make()
    put(priorities, 0, [7, 300], [0.3, 0.7])
    edges = torch.tensor([[0.0, 0.3 - 1e-7, 0.3 + 1e-7, 1 - 2**-53]], dtype=torch.float64)
    assert priorities.draw(edges).tolist() == [[7, 7, 300, 300]]


def test_only_slots_with_priority_are_ever_drawn():
    priorities = make(slots=1_000_000)
    generator = np.random.default_rng(1)
    chosen = generator.choice(1_000_000, 5_000, replace=False)
    put(priorities, 0, chosen.tolist(), generator.uniform(1, 9, 5_000).tolist())
    drawn = priorities.draw(torch.from_numpy(generator.random((1, 200_000))))
    assert set(drawn.flatten().tolist()) <= set(chosen.tolist())


def test_update_is_max_of_1_and_delta_to_the_0_4():
    priorities = make()
    put(priorities, 0, [1, 2, 3], [1.0, 1.0, 1.0])
    priorities.update(torch.tensor([[1, 2, 2]]), torch.tensor([[0.5, 32.0, 2.0]]))
    assert priorities.values[0, 1].item() == 1.0
    assert priorities.values[0, 2].item() == pytest.approx(4.0)  # 32^0.4; of two draws of a slot the larger counts
    assert priorities.values[0, 3].item() == 1.0
    assert priorities.sums[0, 0].item() == pytest.approx(6.0)
    assert priorities.highest.item() == pytest.approx(4.0)
    priorities.update(torch.tensor([[2]]), torch.tensor([[0.0]]))
    assert priorities.values[0, 2].item() == 1.0
    assert priorities.highest.item() == pytest.approx(4.0), "the largest seen so far, not the largest now"


SLOTS = 2 * BLOCK + 10
FEW = st.lists(st.sampled_from([0, 1, BLOCK - 1, BLOCK, 2 * BLOCK - 1, 2 * BLOCK, SLOTS - 1]), min_size=1, max_size=12)


@given(st.lists(st.tuples(FEW, FEW, st.booleans(), st.integers(0, 1_000)), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_any_changes_leave_each_block_with_its_sum_and_each_slot_with_its_share(changes):
    priorities, values, highest = make(agents=2), np.zeros((2, SLOTS)), np.ones(2)
    for first, second, by_errors, seed in changes:
        count = min(len(first), len(second))
        slots = np.array([first[:count], second[:count]])
        numbers = np.random.default_rng(seed).uniform(0, 9, slots.shape).astype(np.float32)
        if by_errors:  # of a slot's errors the largest counts
            priorities.update(torch.from_numpy(slots), torch.from_numpy(numbers))
            numbers = np.maximum(numbers, 1) ** 0.4
            highest = np.maximum(highest, numbers.max(1))
        else:  # one number per slot
            numbers[:] = slots * 0.01
            priorities.set(torch.tensor([[0], [1]]), torch.from_numpy(slots), torch.from_numpy(numbers))
        for agent in range(2):
            values[agent, slots[agent]] = 0
            np.maximum.at(values[agent], slots[agent], numbers[agent])
    np.testing.assert_allclose(priorities.highest, highest, rtol=1e-6)
    np.testing.assert_allclose(priorities.values[:, :SLOTS], values, rtol=1e-6)
    blocks = priorities.values.view(2, 3, BLOCK)
    np.testing.assert_allclose(priorities.sums, blocks.sum(-1), rtol=1e-6)
    for agent in range(2):
        held = np.flatnonzero(values[agent])
        if len(held):
            shares = values[agent, held]
            middles = (shares.cumsum() - shares / 2) / shares.sum()
            uniforms = torch.from_numpy(np.tile(middles, (2, 1)))
            assert priorities.draw(uniforms)[agent].tolist() == held.tolist()
