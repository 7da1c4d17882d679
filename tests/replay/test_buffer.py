"""Windows and stacks checked by arithmetic: each frame holds the numbers of its episode and step."""

import numpy as np
import pytest
import torch

from mrq.interface import Image, ReplaySettings, Spec, Transitions
from mrq.replay import buffer
from mrq.replay.buffer import Replay

CPU = torch.device("cpu")
SETTINGS = ReplaySettings(capacity=1_000, horizon=5, priority_exponent=0.4, minimum_priority=1.0)
VECTOR = Spec(numbers=2, continuous=1)
IMAGE = Spec((Image(1, 84, 84),), history=4, choices=(2,))


def frame(spec, episode, step):
    if spec.images:
        picture = np.zeros(spec.frame_shape, np.uint8)
        picture[0, 0, :2] = episode, step
        return picture
    return np.array([episode, step], np.float32)


def play(replay, spec, plans):
    """Stores each agent's plan of episodes (length, terminated?), all in lockstep until the shortest plan ends.

    The reward of step t in episode e is 100 e + t + 1, the action's first entry (t + 1) / 100. Returns the (episode,
    step) of each agent's transitions.
    """
    agents = len(plans)
    transitions = [[] for _ in plans]
    episode, step, over = np.zeros(agents, int), np.zeros(agents, int), np.ones(agents, bool)
    for _ in range(min(sum(length for length, _ in plan) for plan in plans)):
        if over.any():
            replay.begin(over, np.stack([frame(spec, episode[a], 0) for a in range(agents)]))
            step[over] = 0
        actions = np.zeros((agents, spec.action_size), np.float32)
        actions[:, 0] = (step + 1) / 100
        for agent in range(agents):
            transitions[agent].append((int(episode[agent]), int(step[agent])))
        ends = np.array([step[a] + 1 == plans[a][episode[a]][0] for a in range(agents)])
        terminated = np.array([ends[a] and plans[a][episode[a]][1] for a in range(agents)])
        frames = np.stack([frame(spec, episode[a], step[a] + 1) for a in range(agents)])
        rewards = (100 * episode + step + 1).astype(np.float32)
        replay.append(Transitions(actions, rewards, terminated, ends & ~terminated, frames))
        step += 1
        over = ends
        episode += ends
    return transitions


def samplable(replay, agent):
    """Returns the (episode, step) of every state that may be drawn."""
    slots = torch.nonzero(replay.priorities.values[agent]).flatten()
    frames = replay.frames[agent, slots]
    pairs = frames[:, 0, 0, :2] if replay.spec.images else frames
    return {(int(e), int(s)) for e, s in pairs}


def drawn_windows(replay, states, count=1_000):
    agents = len(replay.cursor)
    uniforms = np.random.default_rng(0).random((agents, count))
    return replay.sample(torch.from_numpy(uniforms), states)


def expected_window(plan, episode, step, horizon):
    """Returns the alive flags and the observations' steps; after a termination, the terminal one's."""
    length, terminated = plan[episode]
    alive = [1 if not (terminated and step + t > length - 1 and t > 0) else 0 for t in range(horizon + 1)]
    return alive, [min(step + t, length) for t in range(horizon + 1)]


PLAN = [(7, True), (12, False), (3, True), (4, False), (1, True), (20, True), (6, False), (5, False), (9, True)]


def test_which_states_may_be_sampled():
    replay = Replay([VECTOR], SETTINGS, 100, CPU)
    play(replay, VECTOR, [PLAN])
    expected = set()
    for episode, (length, terminated) in enumerate(PLAN):
        # Terminated: every state with a transition. Truncated: those with five transitions before the end.
        last = length if terminated else length - 4
        expected |= {(episode, step) for step in range(max(last, 0))}
    assert samplable(replay, 0) == expected


def test_a_state_waits_for_five_transitions():
    replay = Replay([VECTOR], SETTINGS, 100, CPU)
    play(replay, VECTOR, [[(4, False)]])
    assert samplable(replay, 0) == set()
    assert not replay.can_sample()
    replay = Replay([VECTOR], SETTINGS, 100, CPU)
    play(replay, VECTOR, [[(5, False)]])
    assert samplable(replay, 0) == {(0, 0)}
    assert replay.can_sample()


@pytest.mark.parametrize("states", [range(6), (0, 3)], ids=["encoder", "value"])
def test_windows_for_three_agents(states):
    plans = [PLAN, PLAN[3:] + PLAN[:3], PLAN[::-1]]
    replay = Replay([VECTOR] * 3, SETTINGS, 120, CPU)
    play(replay, VECTOR, plans)
    windows = drawn_windows(replay, states)
    horizon = states[-1]
    for agent, plan in enumerate(plans):
        for observations, actions, rewards, alive in zip(
            windows.states[agent], windows.actions[agent], windows.rewards[agent], windows.alive[agent], strict=True
        ):
            episode, step = observations[0].int().tolist()
            flags, steps = expected_window(plan, episode, step, horizon)
            assert alive.tolist() == flags
            assert observations[:, 0].tolist() == [episode] * len(states)
            assert observations[:, 1].tolist() == [steps[t] for t in states]
            for t in range(horizon):
                expected = 100 * episode + step + t + 1 if flags[t] else 0
                assert rewards[t] == expected
                assert actions[t, 0] == pytest.approx((step + t + 1) / 100 if flags[t] else 0)


@pytest.mark.parametrize("spec", [VECTOR, IMAGE], ids=["vector", "image"])
def test_the_ring_wraps_without_mixing_old_and_new(spec):
    plans = [PLAN * 6, [(5, True), (13, False)] * 22]
    slots = 100
    replay = Replay([spec] * 2, SETTINGS, slots, CPU)
    transitions = play(replay, spec, plans)
    assert (replay.filled == slots).all()
    windows = drawn_windows(replay, range(6), 500)
    for agent, plan in enumerate(plans):
        held = set(transitions[agent][-slots:])
        for observations, alive in zip(windows.states[agent], windows.alive[agent], strict=True):
            pixels = observations[:, :, 0, :2].int() if spec.images else observations[:, None].int()
            episode, step = pixels[0, -1].tolist()
            assert (episode, step) in held
            flags, steps = expected_window(plan, episode, step, 5)
            assert alive.tolist() == flags
            for t in range(6):
                back = range(spec.history - 1, -1, -1)
                assert pixels[t].tolist() == [[episode, max(steps[t] - k, 0)] for k in back]


@pytest.mark.parametrize("spec", [VECTOR, IMAGE], ids=["vector", "image"])
def test_a_ring_that_is_just_full_has_lost_nothing(spec):
    """The first observation is overwritten by the next one, not by that which fills the ring."""
    plan = [(1, True)] * 50  # two observations each
    full, roomy = (Replay([spec], SETTINGS, slots, CPU) for slots in (100, 200))
    for replay in (full, roomy):
        play(replay, spec, [plan])
    assert full.filled[0] == full.slots
    assert samplable(full, 0) == samplable(roomy, 0) == {(episode, 0) for episode in range(50)}


def test_stacks_repeat_the_first_frame_and_the_present_state_is_the_latest():
    replay = Replay([IMAGE], SETTINGS, 100, CPU)
    play(replay, IMAGE, [[(6, True), (2, False)]])
    assert replay.present_states(0)[0].shape == (4, 1, 84, 84)
    assert replay.present_states(0)[0][:, 0, 0, :2].tolist() == [[1, 0], [1, 0], [1, 1], [1, 2]]


def test_mean_absolute_reward_counts_only_transitions():
    replay = Replay([VECTOR], SETTINGS, 100, CPU)
    play(replay, VECTOR, [[(2, True), (3, False)]])
    assert replay.mean_absolute_reward().item() == pytest.approx((1 + 2 + 101 + 102 + 103) / 5)
    replay.rewards.neg_()
    assert replay.mean_absolute_reward().item() == pytest.approx((1 + 2 + 101 + 102 + 103) / 5)


def test_new_states_get_the_highest_priority_seen():
    replay = Replay([VECTOR], SETTINGS, 100, CPU)
    play(replay, VECTOR, [[(3, True)]])
    replay.priorities.update(torch.tensor([[0]]), torch.tensor([[32.0]]))
    play(replay, VECTOR, [[(2, True)]])
    assert replay.priorities.values[0, :7].tolist() == pytest.approx([4, 1, 1, 0, 4, 4, 0])


def test_termination_is_remembered_for_each_agent():
    replay = Replay([VECTOR] * 2, SETTINGS, 100, CPU)
    play(replay, VECTOR, [[(8, False)], [(3, True), (5, False)]])
    assert replay.terminated_before.tolist() == [False, True]


@pytest.mark.parametrize("spec", [VECTOR, IMAGE], ids=["vector", "image"])
def test_making_room_changes_nothing_else(spec):
    replay = Replay([spec] * 2, SETTINGS, 100, CPU)
    play(replay, spec, [PLAN, PLAN[::-1]])
    replay.priorities.update(torch.zeros(2, 1, dtype=torch.long), torch.full((2, 1), 3.0))
    uniforms = torch.from_numpy(np.random.default_rng(0).random((2, 64)))

    def read():
        on_host = replay.present_states(1)[0], replay.episode_actions(0)
        return *replay.sample(uniforms, range(6)), *map(torch.from_numpy, on_host)

    before = read()
    assert not replay.make_room(100)
    assert replay.make_room(150)
    assert replay.slots == 150
    for ours, theirs in zip(before, read(), strict=True):
        assert torch.equal(ours, theirs)


def test_a_ring_that_is_not_full_fits_a_smaller_one():
    large, small = Replay([VECTOR], SETTINGS, 900, CPU), Replay([VECTOR], SETTINGS, 100, CPU)
    play(large, VECTOR, [PLAN])
    small.load_state_of(0, *large.state_of(0))
    uniforms = torch.from_numpy(np.random.default_rng(0).random((1, 64)))
    for ours, theirs in zip(large.sample(uniforms, range(6)), small.sample(uniforms, range(6)), strict=True):
        assert torch.equal(ours, theirs)


def test_a_fleets_padding_is_neither_saved_nor_needed():
    wide = Spec(numbers=5, continuous=4)
    both = Replay([VECTOR, wide], SETTINGS, 100, CPU)
    both.begin(np.ones(2, bool), np.array([[1, 2, 0, 0, 0], [1, 2, 3, 4, 5]], np.float32))
    actions = np.array([[0.5, 0, 0, 0], [0.1, 0.2, 0.3, 0.4]], np.float32)
    none = np.zeros(2, bool)
    both.append(Transitions(actions, np.ones(2), none, none, np.zeros((2, 5), np.float32)))
    arrays, counters = both.state_of(0)
    assert arrays["frames-0"].tolist() == [[1, 2], [0, 0]]
    assert arrays["actions-0"].tolist() == [[0.5], [0]]
    alone = Replay([VECTOR], SETTINGS, 100, CPU)
    alone.load_state_of(0, arrays, counters)
    assert alone.episode_actions(0).tolist() == [[0.5]]
    assert both.state_of(1)[0]["frames-0"].tolist() == [[1, 2, 3, 4, 5], [0, 0, 0, 0, 0]]


def test_blocks_that_did_not_change_are_saved_as_before(monkeypatch):
    monkeypatch.setattr(buffer, "BLOCK_BYTES", 80)  # ten frames of two floats
    replay = Replay([VECTOR], SETTINGS, 100, CPU)
    play(replay, VECTOR, [[(29, False)]])
    again = Replay([VECTOR], SETTINGS, 100, CPU)
    again.load_state_of(0, *replay.state_of(0))
    play(again, VECTOR, [[(6, False)]])
    after, _ = again.state_of(0)
    for block in range(3):
        assert after[f"frames-{block}"].tolist() == [[0, 10 * block + step] for step in range(10)]
    assert after["frames-3"].tolist() == [[0, step] for step in range(7)]


def test_the_current_episode():
    replay = Replay([VECTOR], SETTINGS, 100, CPU)
    play(replay, VECTOR, [[(3, True), (5, False)]])
    np.testing.assert_allclose(replay.episode_actions(0)[:, 0], [0.01, 0.02, 0.03, 0.04, 0.05])
    np.testing.assert_array_equal(replay.present_states(0)[0], [[1, 5]])
    long = Replay([VECTOR], SETTINGS, 100, CPU)
    play(long, VECTOR, [[(100, False)]])
    assert long.episode_actions(0) is None
