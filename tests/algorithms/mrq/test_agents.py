"""The updates of P agents: targets, gradients, optimisers."""

import copy
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from mrq.algorithms.mrq import losses, networks
from mrq.algorithms.mrq.agents import METRICS, NETWORKS, Agents
from mrq.algorithms.mrq.batch import Batch, RewardScales
from mrq.algorithms.mrq.noise import encoder_noise, value_noise
from mrq.algorithms.mrq.unroll import unrolled_gradients
from mrq.algorithms.observed import Observed
from mrq.execution import nothing
from mrq.interface import Image, Spec, Windows

CPU = torch.device("cpu")


def make(spec, h, seeds=(0,)):
    return Agents([spec] * len(seeds), h, [np.random.default_rng(seed) for seed in seeds], CPU)


def windows_for(spec, h, agents, batches, states, horizon, seed=0):
    g = torch.Generator().manual_seed(seed)
    count = batches * h.batch_size
    if spec.images:
        observations = torch.randint(0, 256, (agents, count, states, *spec.state_shape), generator=g, dtype=torch.uint8)
    else:
        observations = torch.randn(agents, count, states, *spec.state_shape, generator=g)
    if spec.packed or spec.masked:  # the floats that frames begin with, and masks that forbid some options
        floats = torch.randn(agents, count, states, spec.history, spec.floats, generator=g)
        if spec.masked:
            floats[..., spec.numbers :] = (floats[..., spec.numbers :] > 0).float()
            first = torch.tensor(spec.choices).cumsum(0) - torch.tensor(spec.choices)
            floats[..., spec.numbers + first] = 1.0
        as_stored = floats.view(torch.uint8) if spec.images else floats
        observations.view(*observations.shape[:3], spec.history, -1)[..., : as_stored.shape[-1]] = as_stored
    alive = torch.ones(agents, count, horizon + 1)
    alive[:, ::7, -1] = 0
    return Windows(
        slots=torch.zeros(agents, count, dtype=torch.long),
        states=observations,
        actions=torch.rand(agents, count, horizon, spec.action_size, generator=g) * 2 - 1,
        rewards=torch.randn(agents, count, horizon, generator=g),
        alive=alive,
    )


def noise_for(draw, spec, h, agents, count):
    drawn = [draw(np.random.default_rng(seed), count, spec, h) for seed in range(agents)]
    noise = {name: torch.from_numpy(np.stack([d[name] for d in drawn])).flatten(1, 2) for name in drawn[0]}
    noise.pop("sample")
    return noise


def test_synchronising_copies_networks_and_updates_both_reward_scales(small, spec):
    agents = make(spec, small)
    with torch.no_grad():
        for network in NETWORKS:
            for tensor in agents.networks[network].values():
                tensor += 1
    agents.sync_targets(torch.tensor([0.25]))
    for network in NETWORKS:
        for name, tensor in agents.networks[network].items():
            assert torch.equal(tensor, agents.targets[network][name])
    assert (agents.target_reward_scale.item(), agents.reward_scale.item()) == (1.0, 0.25)
    agents.sync_targets(torch.tensor([0.0]))
    assert agents.target_reward_scale.item() == 0.25
    assert agents.reward_scale.item() == pytest.approx(1e-8)


def test_encoder_update_is_adamw_on_the_loss_with_targets_from_the_target_encoder(small, spec):
    agents = make(spec, small)
    with torch.no_grad():  # targets that differ from the networks
        for tensor in agents.targets["encoder"].values():
            tensor += 0.1
    windows = windows_for(spec, small, 1, 2, 6, 5)
    parameters = {n: t[0].detach().clone().requires_grad_() for n, t in agents.networks["encoder"].items()}
    target = {n: t[0] for n, t in agents.targets["encoder"].items()}
    optimiser = torch.optim.AdamW(parameters.values(), lr=1e-4, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-4)
    for batch in (slice(0, 16), slice(16, 32)):
        states = windows.states[0, batch]
        zs = torch.stack([networks.encode_state(target, Observed((), states[:, t])) for t in range(1, 6)], 1)
        targets = losses.EncoderTargets(zs, windows.rewards[0, batch], windows.alive[0, batch], torch.tensor(0.1))
        plain = {n: t.detach() for n, t in parameters.items()}
        gradients, _ = unrolled_gradients(
            lambda predictions, _, targets=targets: losses.encoder_loss(predictions, targets, agents.bins, small),
            plain,
            Observed((), states[:, 0]),
            windows.actions[0, batch],
        )
        for name, parameter in parameters.items():
            parameter.grad = gradients[name]
        optimiser.step()
    before = copy.deepcopy(agents.networks)
    agents.update_encoder(windows, {}, torch.tensor([True]))
    for name, tensor in agents.networks["encoder"].items():
        torch.testing.assert_close(tensor[0], parameters[name], rtol=1e-5, atol=1e-7)
    for network in ("value", "policy"):
        for name, tensor in agents.networks[network].items():
            assert torch.equal(tensor, before[network][name])


def test_an_rl_update_changes_the_value_first_and_then_the_policy_by_the_new_value(small, spec):
    h = replace(small, value_gradient_clip=0.01)  # small enough to clip
    agents = make(spec, h)
    with torch.no_grad():  # targets and scales that differ from one another
        for parameters in agents.targets.values():
            for tensor in parameters.values():
                tensor += 0.1 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(1))
        agents.reward_scale.fill_(2.0)
        agents.target_reward_scale.fill_(3.0)
    windows = windows_for(spec, h, 1, 1, 2, 3)
    noise = noise_for(value_noise, spec, h, 1, 1)
    own = {
        network: {n: t[0].detach().clone().requires_grad_() for n, t in agents.networks[network].items()}
        for network in NETWORKS
    }
    targets = {network: {n: t[0] for n, t in agents.targets[network].items()} for network in NETWORKS}
    optimisers = {n: torch.optim.AdamW(own[n].values(), lr=3e-4, weight_decay=1e-4) for n in ("value", "policy")}
    with torch.no_grad():
        scales = RewardScales(present=torch.tensor(2.0), target=torch.tensor(3.0))
        batch = Batch(
            *(tensor[0] for tensor in windows[1:]), {n: t[0] for n, t in noise.items()}, agents.own_actions[0]
        )
        target = losses.value_target(
            targets, Observed((), windows.states[0, :, 1]), agents.own_actions[0], batch, scales, spec, h
        )
        zs = networks.encode_state(own["encoder"], Observed((), windows.states[0, :, 0]))
        zsa = networks.encode_pair(own["encoder"], zs, windows.actions[0, :, 0])
    loss, (td_errors, _) = losses.value_loss(own["value"], zsa, target, h)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(own["value"].values(), 0.01)
    assert norm > 0.01
    optimisers["value"].step()
    losses.policy_loss(own["policy"], own, zs, agents.own_actions[0], batch, spec, h).backward()
    optimisers["policy"].step()
    encoder_before = {n: t.detach().clone() for n, t in agents.networks["encoder"].items()}
    returned = agents.update_value_and_policy(windows, noise)
    torch.testing.assert_close(returned[0], td_errors.detach())
    for network in ("value", "policy"):
        for name, tensor in agents.networks[network].items():
            torch.testing.assert_close(tensor[0], own[network][name], rtol=1e-5, atol=1e-7)
    for name, tensor in agents.networks["encoder"].items():
        assert torch.equal(tensor, encoder_before[name]), "no RL gradient reaches the encoder"


@pytest.mark.parametrize(
    "spec",
    [
        Spec(numbers=3, continuous=2),
        Spec(numbers=3, choices=(4,)),
        Spec((Image(1, 84, 84),), history=4, choices=(3,)),
        Spec((Image(3, 84, 84),), history=3, continuous=2),
        Spec(numbers=3, history=2, continuous=2, choices=(3, 2), masked=True),
        Spec((Image(3, 32, 32), Image(1, 48, 32)), 3, 2, continuous=1, choices=(4, 2), masked=True),
    ],
    ids=["vector-box", "vector-discrete", "image-discrete", "image-box", "vector-hybrid", "parts-hybrid"],
)
def test_each_of_three_agents_learns_as_if_it_were_alone(small, spec):
    h = replace(small, batch_size=4, value_gradient_clip=0.05)  # clips, each agent by its own norm

    def learned(which: slice, seeds):
        agents = make(spec, h, seeds)
        agents.sync_targets(torch.tensor([0.5, 2.0, 1.0])[which])
        batches = windows_for(spec, h, 3, 2, 6, 5)
        noise = noise_for(encoder_noise, spec, h, 3, 2)
        seen = torch.tensor([True, False, True])[which]
        agents.update_encoder(_of(batches, which), {n: t[which] for n, t in noise.items()}, seen)
        batch = windows_for(spec, h, 3, 1, 2, 3, seed=1)
        noise = noise_for(value_noise, spec, h, 3, 1)
        for _ in range(2):
            agents.update_value_and_policy(_of(batch, which), {n: t[which] for n, t in noise.items()})
        assert torch.isfinite(agents.metrics).all()
        return agents

    together = learned(slice(0, 3), (7, 8, 9))
    for agent, seed in enumerate((7, 8, 9)):
        alone = learned(slice(agent, agent + 1), (seed,)).state_of(0)
        for name, tensor in together.state_of(agent).items():
            # AdamW turns any gradient, however small, into a step of the learning rate's size: its moments, which
            # hold the gradients themselves, are compared closely, and parameters up to two such steps.
            tolerance = 1e-5 if name.startswith(("mean.", "square.")) else 2 * 2 * 3e-4
            torch.testing.assert_close(
                tensor, alone[name], rtol=1e-3, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
            )
    assert not torch.equal(
        together.networks["policy"]["linear0.weight"][0], together.networks["policy"]["linear0.weight"][1]
    )


def _of(windows, which):
    return Windows(*(tensor[which] for tensor in windows))


def test_restored_agents_continue_exactly(small, spec):
    first, second = make(spec, small), make(spec, small, (5,))
    windows, noise = windows_for(spec, small, 1, 1, 2, 3), noise_for(value_noise, spec, small, 1, 1)
    first.update_value_and_policy(windows, noise)
    second.load_state_of(0, first.state_of(0))
    for agents in (first, second):
        agents.update_value_and_policy(windows, noise)
    for name, tensor in first.state_of(0).items():
        assert torch.equal(tensor, second.state_of(0)[name]), name
    assert first.state_of(0)["steps.value"] == 2
    assert len(METRICS) == first.metrics.shape[1]


def test_each_state_of_an_image_window_is_shifted_by_its_own_offset(small):
    spec, h = Spec((Image(1, 84, 84),), history=4, choices=(3,)), replace(small, batch_size=2)
    agents = make(spec, h)
    windows, noise = windows_for(spec, h, 1, 1, 6, 5), noise_for(encoder_noise, spec, h, 1, 1)
    encoder = {n: t[0].detach() for n, t in agents.networks["encoder"].items()}

    def embedded(batch, state):
        row, column = noise["shift"][0, batch, state].tolist()
        padded = np.pad(windows.states[0, batch, state].numpy(), ((0, 0), (4, 4), (4, 4)), mode="edge")
        cropped = padded[:, row : row + 84, column : column + 84].copy()
        return networks.encode_state(encoder, Observed((torch.from_numpy(cropped)[None],), None))[0]

    embeddings = agents.functions["embed_targets"](agents.targets, windows.states[:, :, 1:], noise, agents.own_actions)
    for batch in range(2):
        for state in range(1, 6):
            torch.testing.assert_close(embeddings[0, batch, state - 1], embedded(batch, state), rtol=1e-3, atol=1e-4)
    shifts = noise_for(value_noise, spec, h, 1, 1) | {"shift": noise["shift"][:, :, :2]}
    batch = Batch(
        states=windows.states[:, :, :2],
        actions=windows.actions[:, :, :3],
        rewards=windows.rewards[:, :, :3],
        alive=windows.alive[:, :, :4],
        noise=shifts,
        own_actions=agents.own_actions,
    )
    zs, _ = agents.functions["embed_pairs"](agents.networks["encoder"], batch)
    for batch in range(2):
        torch.testing.assert_close(zs[0, batch], embedded(batch, 0), rtol=1e-3, atol=1e-4)


def test_where_compiling_fails_updates_run_as_written(small, spec, monkeypatch):
    def broken(function, **options):
        def call(*arguments):
            raise RuntimeError("the compiler was killed")

        return call

    monkeypatch.setattr(torch, "compile", broken)
    eager, failing, complaints = make(spec, small), make(spec, small), []
    compile_all(failing, complaints)
    windows, noise = windows_for(spec, small, 1, 1, 2, 3), noise_for(value_noise, spec, small, 1, 1)
    unrolled = windows_for(spec, small, 1, 1, 6, 5)
    for agents in (eager, failing):
        agents.update_encoder(unrolled, {}, torch.tensor([True]))
        agents.update_value_and_policy(windows, noise)
    assert {str(error) for error in complaints} == {"the compiler was killed"}
    assert [name for name, function in failing.functions.items() if function.compiled] == ["explore"]  # was not called
    for name, tensor in eager.state_of(0).items():
        assert torch.equal(tensor, failing.state_of(0)[name]), name


@pytest.mark.skipif(shutil.which("g++") is None, reason="compiling needs a C++ compiler")
@pytest.mark.slow
def test_compiled_updates_equal_those_run_as_written(small, spec):
    eager, compiled, complaints = make(spec, small), make(spec, small), []
    compile_all(compiled, complaints)
    windows, noise = windows_for(spec, small, 1, 1, 2, 3), noise_for(value_noise, spec, small, 1, 1)
    unrolled = windows_for(spec, small, 1, 1, 6, 5)
    for agents in (eager, compiled):
        agents.update_encoder(unrolled, {}, torch.tensor([True]))
        agents.update_value_and_policy(windows, noise)
    for name, tensor in eager.state_of(0).items():
        torch.testing.assert_close(tensor, compiled.state_of(0)[name], rtol=1e-3, atol=2e-5)
    assert not complaints


def compile_all(agents, complaints):
    """Compiles what a learner compiles on a CPU: not the optimiser."""
    for name, function in agents.functions.items():
        if not name.startswith("descend"):
            function.compile(complaints.append, nothing)
