"""Agents that see several parts, choose several things and obey masks: stored, sampled, saved, loaded, predicted."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mrq import MRQ, MRQError
from mrq.algorithms.observed import allowed_actions, observed
from mrq.training.playing import play
from tests.environments_for_tests import HybridTarget, Masked, Workshop, options_allowed
from tests.training.populations import advance, assert_equal, population

SEVERAL = {"image_size": 32, "history": 2, "action_history": True}


def test_windows_hold_what_each_state_showed_and_allowed(small):
    """Workshop's pictures are as red as ten times the step; its ninth step is an episode's last."""
    agents = population(Workshop, (0,), small)
    advance(agents, 45)
    spec, horizon = agents.environments.spec, 5
    uniforms = torch.from_numpy(np.random.default_rng(0).random((1, 200)))
    windows = agents.replay.sample(uniforms, range(horizon + 1))
    states = windows.states[0].flatten(0, 1)
    parts, own = observed(states, spec), torch.ones(spec.action_size, dtype=torch.bool)
    steps = (parts.images[0][:, ::3, 0, 0] // 10).view(200, horizon + 1, spec.history).numpy()
    allowed = allowed_actions(states, spec, own).view(200, horizon + 1, -1).numpy()
    symbols = parts.numbers.view(len(states), spec.numbers, spec.history)[:, 2:, -1].argmax(-1).view(200, horizon + 1)
    seen = set()
    for state in np.ndindex(200, horizon + 1):
        oldest, before, now = steps[state].tolist()
        assert (oldest, before) == (max(now - 2, 0), max(now - 1, 0))
        assert allowed[state].tolist() == (options_allowed(now) if now < 9 else np.ones(5, bool)).tolist()
        assert symbols[state] == now % 3
        seen.add(now)
    assert seen == set(range(10))
    for step in range(horizon):
        alive, now = windows.alive[0, :, step].bool(), steps[:, step, -1]
        taken = windows.actions[0, :, step].bool().numpy()
        assert (taken.sum(1) == 2 * alive.numpy()).all()
        for place in np.flatnonzero(alive):
            assert options_allowed(now[place])[taken[place]].all()


@pytest.mark.parametrize(("make", "view"), [(Workshop, SEVERAL), (HybridTarget, {})], ids=["parts", "hybrid"])
def test_a_loaded_agent_continues_exactly(make, view, small, tmp_path):
    agent, straight = (MRQ(make, hyperparameters=small, **view) for _ in range(2))
    straight.learn(62)
    agent.learn(57).save(tmp_path / "agent")
    loaded = MRQ.load(tmp_path / "agent", env=make)
    loaded.learn(5)
    ours, theirs = (each._population.state_of(0) for each in (loaded, straight))
    for state in (ours, theirs):
        del state.counters["seconds"]
    assert_equal(ours, theirs)
    assert loaded._translator.spec == agent._translator.spec
    learned = MRQ(f"tests.environments_for_tests:{make.__name__}", hyperparameters=small, **view).learn(10)
    learned.save(tmp_path / "by name")
    assert len(play(tmp_path / "by name", 3, False, None, "cpu", trust=True).returns) == 3


def test_predictions_see_the_steps_before_as_training_does(small):
    agent, environment = MRQ(Workshop, hyperparameters=small, **SEVERAL), Workshop()
    seen = []
    agent._population.learner.act = _recorded(agent._population.learner.act, seen)
    state, translator = None, agent._translator
    observation, info = environment.reset(seed=0)
    frames = [translator.frame(observation, None, translator.mask(info["action_mask"]))]
    for _ in range(4):
        mask = info["action_mask"]
        action, state = agent.predict(observation, state, action_masks=mask)
        observation, _, _, _, info = environment.step(action)  # fails where it is not allowed
        network_action = np.concatenate([np.eye(3)[action[0]], np.eye(2)[action[1]]]).astype(np.float32)
        np.testing.assert_array_equal(state.actions, network_action[None])
        frames.append(translator.frame(observation, network_action, translator.mask(info["action_mask"])))
    for step, states in enumerate(seen):
        expected = np.concatenate([frames[max(step - 1, 0)], frames[step]])
        np.testing.assert_array_equal(states[0, 0], expected)


def _recorded(act, seen):
    def recording(states, *arguments):
        seen.append(states.numpy().copy())
        return act(states, *arguments)

    return recording


def test_predictions_of_batches_obey_each_mask(small):
    agent = MRQ(Masked, hyperparameters=small)
    rng = np.random.default_rng(0)
    observations, masks = rng.normal(size=(300, 2)).astype(np.float32), rng.integers(0, 2, (300, 5))
    for deterministic in (False, True):
        actions, _ = agent.predict(observations, action_masks=masks, deterministic=deterministic)
        assert actions.shape == (300, 2)
        for action, mask in zip(actions, masks, strict=True):
            assert mask[action[0]] or not mask[:3].any()
            assert mask[3 + action[1]] or not mask[3:].any()
    one, _ = agent.predict(observations[0], action_masks=masks[0], deterministic=True)
    assert one.tolist() == actions[0].tolist()
    assert len({tuple(action) for action in agent.predict(observations)[0].tolist()}) == 6, "without masks, all"
    with pytest.raises(MRQError, match=r"action mask .* does not fit"):
        agent.predict(observations[0], action_masks=[1, 1])
    with pytest.raises(MRQError, match=r"action mask .* does not fit"):
        agent.predict(observations, action_masks=masks[:, :4])
    with pytest.raises(MRQError):
        agent.predict(observations, action_masks=masks[:7])


def test_predictions_of_hybrid_actions(small):
    agent = MRQ(HybridTarget, hyperparameters=small)
    observation = {"goal": np.array([0.5]), "tool": 2}
    action, state = agent.predict(observation, deterministic=True)
    assert state is None
    assert agent.action_space.contains(action)
    batch = {"goal": np.array([[0.5], [-0.5]]), "tool": np.array([2, 0])}
    actions, _ = agent.predict(batch, deterministic=True)
    assert {name: values.shape for name, values in actions.items()} == {"move": (2, 1), "tool": (2,)}
    np.testing.assert_allclose(actions["move"][0], action["move"], rtol=1e-5)
    assert actions["tool"][0] == action["tool"]
    tools = agent.predict({"goal": np.zeros((200, 1)), "tool": np.zeros(200, int)})[0]["tool"]
    assert set(tools.tolist()) == {1, 2, 3}


def test_forbidden_options_are_never_taken(small):
    """Masked fails at the first step at which one is: in random steps, exploration and evaluation."""
    h = replace(small, exploration_noise=20.0)  # noise alone would choose
    agents = population(Masked, (0, 1), h)
    advance(agents, 110)
    assert agents.active.all()
    agent = MRQ(Masked, hyperparameters=h)
    agent.learn(60, evaluate_every=20)
    taken = agents.replay.actions[0, :110].sum(0)
    assert (taken > 0).all(), "and every option is taken at times"
