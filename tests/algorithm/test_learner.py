"""The update of P agents: schedule, targets, gradients, optimisers."""

import copy
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from mrq.algorithm import losses, networks
from mrq.algorithm.learner import METRICS, NETWORKS, Learner
from mrq.algorithm.noise import encoder_noise, value_noise
from mrq.algorithm.unroll import unrolled_gradients
from mrq.interface import Spec, Windows

CPU = torch.device("cpu")


def make(spec, h, seeds=(0,)):
    return Learner([spec] * len(seeds), h, [np.random.default_rng(seed) for seed in seeds], CPU)


def windows_for(spec, h, agents, batches, states, horizon, seed=0):
    g = torch.Generator().manual_seed(seed)
    count = batches * h.batch_size
    if spec.image:
        observations = torch.randint(0, 256, (agents, count, states, *spec.state_shape), generator=g, dtype=torch.uint8)
    else:
        observations = torch.randn(agents, count, states, *spec.state_shape, generator=g)
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


def test_sync_copies_networks_and_moves_the_reward_scale_on(small, spec):
    learner = make(spec, small)
    with torch.no_grad():
        for network in NETWORKS:
            for tensor in learner.networks[network].values():
                tensor += 1
    learner.sync_targets(torch.tensor([0.25]))
    for network in NETWORKS:
        for name, tensor in learner.networks[network].items():
            assert torch.equal(tensor, learner.targets[network][name])
    assert (learner.target_reward_scale.item(), learner.reward_scale.item()) == (1.0, 0.25)
    learner.sync_targets(torch.tensor([0.0]))
    assert learner.target_reward_scale.item() == 0.25
    assert learner.reward_scale.item() == pytest.approx(1e-8)


def test_encoder_update_is_adamw_on_the_loss_with_targets_from_the_target_encoder(small, spec):
    learner = make(spec, small)
    with torch.no_grad():  # targets that differ from the networks
        for tensor in learner.targets["encoder"].values():
            tensor += 0.1
    windows = windows_for(spec, small, 1, 2, 6, 5)
    parameters = {n: t[0].detach().clone().requires_grad_() for n, t in learner.networks["encoder"].items()}
    target = {n: t[0] for n, t in learner.targets["encoder"].items()}
    optimiser = torch.optim.AdamW(parameters.values(), lr=1e-4, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-4)
    for batch in (slice(0, 16), slice(16, 32)):
        states = windows.states[0, batch]
        zs = torch.stack([networks.encode_state(target, states[:, t]) for t in range(1, 6)], 1)
        targets = losses.EncoderTargets(zs, windows.rewards[0, batch], windows.alive[0, batch], torch.tensor(0.1))
        plain = {n: t.detach() for n, t in parameters.items()}
        gradients, _ = unrolled_gradients(
            lambda predictions, _, targets=targets: losses.encoder_loss(predictions, targets, learner.bins, small),
            plain,
            states[:, 0],
            windows.actions[0, batch],
        )
        for name, parameter in parameters.items():
            parameter.grad = gradients[name]
        optimiser.step()
    before = copy.deepcopy(learner.networks)
    learner.update_encoder(windows, {}, torch.tensor([True]))
    for name, tensor in learner.networks["encoder"].items():
        torch.testing.assert_close(tensor[0], parameters[name], rtol=1e-5, atol=1e-7)
    for network in ("value", "policy"):
        for name, tensor in learner.networks[network].items():
            assert torch.equal(tensor, before[network][name])


def test_rl_update_is_value_first_then_policy_with_the_new_value(small, spec):
    h = replace(small, value_gradient_clip=0.01)  # small enough to clip
    learner = make(spec, h)
    with torch.no_grad():  # targets and scales that differ from one another
        for parameters in learner.targets.values():
            for tensor in parameters.values():
                tensor += 0.1 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(1))
        learner.reward_scale.fill_(2.0)
        learner.target_reward_scale.fill_(3.0)
    windows = windows_for(spec, h, 1, 1, 2, 3)
    noise = noise_for(value_noise, spec, h, 1, 1)
    own = {
        network: {n: t[0].detach().clone().requires_grad_() for n, t in learner.networks[network].items()}
        for network in NETWORKS
    }
    targets = {network: {n: t[0] for n, t in learner.targets[network].items()} for network in NETWORKS}
    optimisers = {n: torch.optim.AdamW(own[n].values(), lr=3e-4, weight_decay=1e-4) for n in ("value", "policy")}
    with torch.no_grad():
        target = losses.value_target(
            targets["encoder"],
            targets["policy"],
            targets["value"],
            windows.states[0, :, 1],
            windows.rewards[0],
            windows.alive[0],
            {name: tensor[0] for name, tensor in noise.items()},
            learner.own_actions[0],
            torch.tensor(2.0),
            torch.tensor(3.0),
            h,
        )
        zs = networks.encode_state(own["encoder"], windows.states[0, :, 0])
        zsa = networks.encode_pair(own["encoder"], zs, windows.actions[0, :, 0])
    loss, (td_errors, _) = losses.value_loss(own["value"], zsa, target, h)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(own["value"].values(), 0.01)
    assert norm > 0.01
    optimisers["value"].step()
    losses.policy_loss(own["policy"], own["encoder"], own["value"], zs, {}, learner.own_actions[0], h).backward()
    optimisers["policy"].step()
    encoder_before = {n: t.detach().clone() for n, t in learner.networks["encoder"].items()}
    returned = learner.update_value_and_policy(windows, noise)
    torch.testing.assert_close(returned[0], td_errors.detach())
    for network in ("value", "policy"):
        for name, tensor in learner.networks[network].items():
            torch.testing.assert_close(tensor[0], own[network][name], rtol=1e-5, atol=1e-7)
    for name, tensor in learner.networks["encoder"].items():
        assert torch.equal(tensor, encoder_before[name]), "no RL gradient reaches the encoder"


@pytest.mark.parametrize(
    "spec",
    [
        Spec((3,), 1, 2, False),
        Spec((3,), 1, 4, True),
        Spec((1, 84, 84), 4, 3, True),
        Spec((3, 84, 84), 3, 2, False),
    ],
    ids=["vector-box", "vector-discrete", "image-discrete", "image-box"],
)
def test_each_of_three_agents_learns_as_if_it_were_alone(small, spec):
    h = replace(small, batch_size=4, value_gradient_clip=0.05)  # clips, each agent by its own norm

    def learned(agents: slice, seeds):
        learner = make(spec, h, seeds)
        learner.sync_targets(torch.tensor([0.5, 2.0, 1.0])[agents])
        batches = windows_for(spec, h, 3, 2, 6, 5)
        noise = noise_for(encoder_noise, spec, h, 3, 2)
        seen = torch.tensor([True, False, True])[agents]
        learner.update_encoder(_of(batches, agents), {n: t[agents] for n, t in noise.items()}, seen)
        batch = windows_for(spec, h, 3, 1, 2, 3, seed=1)
        noise = noise_for(value_noise, spec, h, 3, 1)
        for _ in range(2):
            learner.update_value_and_policy(_of(batch, agents), {n: t[agents] for n, t in noise.items()})
        assert torch.isfinite(learner.metrics).all()
        return learner

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


def _of(windows, agents):
    return Windows(*(tensor[agents] for tensor in windows))


def test_state_round_trip_continues_exactly(small, spec):
    first, second = make(spec, small), make(spec, small, (5,))
    windows, noise = windows_for(spec, small, 1, 1, 2, 3), noise_for(value_noise, spec, small, 1, 1)
    first.update_value_and_policy(windows, noise)
    second.load_state_of(0, first.state_of(0))
    for learner in (first, second):
        learner.update_value_and_policy(windows, noise)
    for name, tensor in first.state_of(0).items():
        assert torch.equal(tensor, second.state_of(0)[name]), name
    assert first.state_of(0)["steps.value"] == 2
    assert len(METRICS) == first.metrics.shape[1]


def test_each_state_of_an_image_window_is_shifted_by_its_own_offset(small):
    spec, h = Spec((1, 84, 84), 4, 3, True), replace(small, batch_size=2)
    learner = make(spec, h)
    windows, noise = windows_for(spec, h, 1, 1, 6, 5), noise_for(encoder_noise, spec, h, 1, 1)
    encoder = {n: t[0].detach() for n, t in learner.networks["encoder"].items()}

    def embedded(batch, state):
        row, column = noise["shift"][0, batch, state].tolist()
        padded = np.pad(windows.states[0, batch, state].numpy(), ((0, 0), (4, 4), (4, 4)), mode="edge")
        cropped = padded[:, row : row + 84, column : column + 84].copy()
        return networks.encode_state(encoder, torch.from_numpy(cropped)[None])[0]

    embeddings = learner._work["embed_targets"](
        learner.targets["encoder"], learner.targets["policy"], windows.states[:, :, 1:], noise, learner.own_actions
    )
    for batch in range(2):
        for state in range(1, 6):
            torch.testing.assert_close(embeddings[0, batch, state - 1], embedded(batch, state), rtol=1e-3, atol=1e-4)
    pair = Windows(
        windows.slots, windows.states[:, :, :2], *(t[:, :, :3] for t in windows[2:4]), windows.alive[:, :, :4]
    )
    shifts = noise_for(value_noise, spec, h, 1, 1) | {"shift": noise["shift"][:, :, :2]}
    zs, _ = learner._work["embed_pairs"](
        learner.networks["encoder"], pair.states[:, :, 0], pair.actions[:, :, 0], shifts
    )
    for batch in range(2):
        torch.testing.assert_close(zs[0, batch], embedded(batch, 0), rtol=1e-3, atol=1e-4)


def test_a_compiler_that_fails_is_done_without(small, spec, monkeypatch):
    def broken(function, **options):
        def call(*arguments):
            raise RuntimeError("the compiler was killed")

        return call

    monkeypatch.setattr(torch, "compile", broken)
    eager, failing, complaints = make(spec, small), make(spec, small), []
    failing.compile(complaints.append)
    windows, noise = windows_for(spec, small, 1, 1, 2, 3), noise_for(value_noise, spec, small, 1, 1)
    for learner in (eager, failing):
        learner.update_value_and_policy(windows, noise)
    assert {str(error) for error in complaints} == {"the compiler was killed"}
    assert not failing.compiled
    for name, tensor in eager.state_of(0).items():
        assert torch.equal(tensor, failing.state_of(0)[name]), name


@pytest.mark.skipif(shutil.which("g++") is None, reason="compiling needs a C++ compiler")
def test_compiled_updates_are_the_eager_ones(small, spec):
    eager, compiled, complaints = make(spec, small), make(spec, small), []
    compiled.compile(complaints.append)
    windows, noise = windows_for(spec, small, 1, 1, 2, 3), noise_for(value_noise, spec, small, 1, 1)
    unrolled = windows_for(spec, small, 1, 1, 6, 5)
    for learner in (eager, compiled):
        learner.update_encoder(unrolled, {}, torch.tensor([True]))
        learner.update_value_and_policy(windows, noise)
    for name, tensor in eager.state_of(0).items():
        torch.testing.assert_close(tensor, compiled.state_of(0)[name], rtol=1e-3, atol=2e-5)
    assert not complaints
