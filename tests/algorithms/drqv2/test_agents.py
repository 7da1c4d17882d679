"""The update of P agents: equal to a plain one, to each agent alone, and continued exactly."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from mrq.algorithms.augmentation import shift
from mrq.algorithms.drqv2 import updates
from mrq.algorithms.drqv2.agents import METRICS, NETWORKS, Agents
from mrq.algorithms.drqv2.batch import Batch
from mrq.algorithms.drqv2.hyperparameters import Hyperparameters
from mrq.algorithms.drqv2.losses import critic_loss, critic_target
from mrq.algorithms.drqv2.networks import encode, initial_networks
from mrq.algorithms.drqv2.noise import update_noise
from mrq.algorithms.drqv2.updates import Constants
from mrq.execution import nothing
from mrq.interface import Image, Spec, Windows, common_spec
from tests.algorithms.drqv2.plain_drqv2 import PlainDrQV2, renamed, shifted

CPU = torch.device("cpu")
SPEC = Spec((Image(1, 24, 24),), history=3, continuous=2)
H = Hyperparameters(batch_size=8, feature_size=5, hidden_width=16, learning_rate=1e-3)
DECAY = 40


def make(seeds=(0,), specs=(SPEC,), h=H, dtype=torch.float32):
    return Agents(specs * len(seeds), h, [np.random.default_rng(s) for s in seeds], [DECAY] * len(seeds), CPU, dtype)


def windows_for(spec, agents, seed):
    g = torch.Generator().manual_seed(seed)
    alive = torch.ones(agents, H.batch_size, 4)
    alive[:, ::3, 2:] = 0
    shape = (agents, H.batch_size, 2, *spec.state_shape)
    return Windows(
        slots=torch.zeros(agents, H.batch_size, dtype=torch.long),
        states=torch.randint(0, 256, shape, generator=g, dtype=torch.uint8),
        actions=torch.rand(agents, H.batch_size, 3, spec.action_size, generator=g) * 2 - 1,
        rewards=torch.randn(agents, H.batch_size, 3, generator=g),
        alive=alive,
    )


def noise_for(spec, agents, seed):
    drawn = [update_noise(np.random.default_rng((seed, agent)), 1, spec, H) for agent in range(agents)]
    noise = {name: torch.from_numpy(np.stack([d[name][0] for d in drawn])) for name in drawn[0]}
    noise.pop("sample")
    return noise


def update(agents, count=1, first=0):
    """Does updates with windows and noise that depend on their number alone."""
    present = len(agents.metrics)
    for number in range(first, first + count):
        windows, noise = windows_for(agents.spec, present, number), noise_for(agents.spec, present, number)
        agents.update(windows, noise, torch.tensor(10 * number))


def test_shifting_by_whole_pixels_is_what_the_original_interpolates():
    images = torch.randint(0, 256, (9, 2, 24, 21), dtype=torch.uint8)
    offsets = torch.stack([torch.arange(9), torch.arange(8, -1, -1)], 1)
    torch.testing.assert_close(shift(images, offsets).float(), shifted(images, offsets), rtol=0, atol=0.02)


def test_updates_are_those_of_a_plain_implementation():
    agents = make()
    initial = initial_networks(np.random.default_rng(0), SPEC, H)
    plain = PlainDrQV2(initial, channels=3, actions=2, h=H, decay=DECAY)
    for number in range(5):
        windows, noise = windows_for(SPEC, 1, number), noise_for(SPEC, 1, number)
        losses = plain.update(
            *(tensor[0] for tensor in windows[1:]), {name: t[0] for name, t in noise.items()}, step=10 * number
        )
        agents.update(windows, noise, torch.tensor(10 * number))
        std = 1 - 0.9 * number / 4
        torch.testing.assert_close(agents.metrics[0], torch.tensor([*losses, std]), rtol=1e-4, atol=1e-4)
        for network in NETWORKS:
            ours = renamed(network, {name: tensor[0] for name, tensor in agents.networks[network].items()})
            torch.testing.assert_close(ours, dict(plain.networks[network].state_dict()), rtol=1e-4, atol=1e-4)
        ours = renamed("critic", {name: tensor[0] for name, tensor in agents.target_critic.items()})
        torch.testing.assert_close(ours, dict(plain.target.state_dict()), rtol=1e-4, atol=1e-4)
    moved = (agents.networks["actor"]["linear1.weight"][0] - initial["actor"]["linear1.weight"]).abs().max()
    assert moved > 2e-3  # several times the tolerance
    assert METRICS == ("critic_loss", "value_mean", "actor_loss", "exploration_std")


def test_the_two_states_of_a_window_are_shifted_apart():
    agents, windows, noise = make(), windows_for(SPEC, 1, 0), noise_for(SPEC, 1, 0)
    offsets = noise["shift"][0]
    assert (offsets[:, 0] != offsets[:, 1]).any(1).sum() > 4
    networks = {name: {n: t[0] for n, t in parameters.items()} for name, parameters in agents.networks.items()}
    batch = Batch(*(tensor[0] for tensor in windows[1:]), {n: t[0] for n, t in noise.items()}, torch.tensor(0.5))
    first, last = (encode(networks["encoder"], shifted(batch.states[:, p], offsets[:, p])) for p in range(2))
    target_critic = {n: t[0] + 0.1 for n, t in agents.target_critic.items()}
    target = critic_target(networks["actor"], target_critic, last, batch, H)
    loss, value_mean = critic_loss(networks["critic"], first, batch.actions[:, 0], target)
    *_, encoded, metrics = updates.critic_gradients(networks, target_critic, batch, Constants(H, torch.float32))
    torch.testing.assert_close(encoded, first, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(metrics, torch.stack([loss, value_mean]), rtol=1e-3, atol=1e-3)


def test_each_of_three_agents_learns_as_if_it_were_alone():
    together = make((7, 8, 9))
    update(together, 3)
    for agent, seed in enumerate((7, 8, 9)):
        alone = make((seed,))
        for number in range(3):
            windows, noise = windows_for(SPEC, 3, number), noise_for(SPEC, 3, number)
            own = Windows(*(tensor[agent : agent + 1] for tensor in windows))
            alone.update(own, {n: t[agent : agent + 1] for n, t in noise.items()}, torch.tensor(10 * number))
        theirs = alone.state_of(0)
        for name, tensor in together.state_of(agent).items():
            # Adam turns any gradient, however small, into a step of the learning rate's size: its moments, which hold
            # the gradients themselves, are compared closely, and parameters up to two such steps.
            tolerance = 1e-5 if name.startswith(("mean.", "square.")) else 2e-3
            torch.testing.assert_close(
                tensor, theirs[name], rtol=1e-3, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
            )


def test_agents_with_fewer_actions_learn_as_if_they_were_alone():
    specs = (SPEC, replace(SPEC, continuous=5))
    assert common_spec(specs).action_size == 5
    agents = Agents(specs, H, [np.random.default_rng(seed) for seed in (0, 1)], [DECAY, 2 * DECAY], CPU)
    alone = make()
    for number in range(3):
        windows, noise = windows_for(agents.spec, 2, number), noise_for(agents.spec, 2, number)
        windows.actions[0, ..., 2:] = 0
        for name in ("target_noise", "actor_noise"):
            noise[name][0, ..., 2:] = 0
        agents.update(windows, noise, torch.tensor(10 * number))
        own = Windows(*(tensor[:1] for tensor in windows))._replace(actions=windows.actions[:1, ..., :2])
        narrow = {name: t[:1, ..., :2] if name.endswith("noise") else t[:1] for name, t in noise.items()}
        alone.update(own, narrow, torch.tensor(10 * number))
    theirs = alone.state_of(0)
    for name, tensor in agents.state_of(0).items():
        assert tensor.shape == theirs[name].shape
        torch.testing.assert_close(tensor, theirs[name], rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
    assert not agents.networks["actor"]["head.weight"][0, 2:].any()
    assert not agents.networks["critic"]["linear0.weight"][0, ..., 5 + 2 :].any()
    assert agents.parameters_of(1) - agents.parameters_of(0) == 3 * (2 * 16 + 16 + 1)


def test_a_state_that_is_loaded_continues_exactly():
    first, second = make(), make((5,))
    update(first, 2)
    second.load_state_of(0, first.state_of(0))
    for agents in (first, second):
        update(agents, 2, first=2)
    state = first.state_of(0)
    for name, tensor in second.state_of(0).items():
        assert torch.equal(tensor, state[name]), name
    assert {name: state[f"steps.{name}"].item() for name in NETWORKS} == {"encoder": 4, "critic": 4, "actor": 4}
    assert not torch.equal(state["target.critic.linear1.weight"], state["critic.linear1.weight"])


def test_actions_of_evaluations_are_the_means_and_those_of_training_are_noisy():
    agents = make()
    states = windows_for(SPEC, 1, 0).states[:, :, 0]
    means = agents.act(states)
    noise = torch.ones(1, H.batch_size, 2)
    noisy = agents.explore(states, noise, torch.tensor(30))
    torch.testing.assert_close(noisy, (means + 0.325).clamp(-0.999999, 0.999999))
    assert means.shape == (1, H.batch_size, 2)
    assert torch.equal(agents.explore(states, 0 * noise, torch.tensor(30)), means)


def test_lower_precision_stays_close():
    full, low = make(), make(dtype=torch.bfloat16)
    for agents in (full, low):
        update(agents, 2)
    assert all(tensor.dtype == torch.float32 for tensor in low.state_of(0).values())
    torch.testing.assert_close(low.metrics, full.metrics, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("count", [1, 3])
def test_what_one_agent_learns_is_counted(count):
    agents = make(tuple(range(count)))
    assert agents.parameters_of(0) == sum(
        tensor[0].numel() for network in agents.networks.values() for tensor in network.values()
    )


@pytest.mark.skipif(shutil.which("g++") is None, reason="compiling needs a C++ compiler")
@pytest.mark.slow
def test_compiled_updates_are_the_eager_ones():
    def failed(error):
        raise AssertionError("compiling failed") from error

    eager, compiled = make(), make()
    for name in ("critic_gradients", "actor_gradients"):
        compiled.functions[name].compile(failed, nothing)
    for agents in (eager, compiled):
        update(agents, 2)
    theirs = eager.state_of(0)
    for name, tensor in compiled.state_of(0).items():
        tolerance = 1e-5 if name.startswith(("mean.", "square.")) else 2e-3
        torch.testing.assert_close(tensor, theirs[name], rtol=1e-3, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}")
