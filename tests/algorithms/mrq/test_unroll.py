"""The unroll's shortcuts equal the model as the paper writes it, differentiated by autograd."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from mrq.algorithms.mrq import networks
from mrq.algorithms.mrq.unroll import unrolled_gradients
from mrq.algorithms.observed import observed
from mrq.interface import Image, Spec

BATCH, HORIZON = 6, 5


@pytest.mark.parametrize(
    "spec", [Spec(numbers=3, continuous=2), Spec((Image(1, 84, 84),), history=4, choices=(3,))], ids=["vector", "image"]
)
def test_predictions_and_gradients_equal_the_plain_ones(spec, small):
    torch.manual_seed(0)
    encoder = networks.initial_encoder(np.random.default_rng(1), spec, small)
    encoder = {n: (t + 0.1 * torch.randn_like(t)).requires_grad_() for n, t in encoder.items()}  # biases too
    if spec.images:
        states = torch.randint(0, 256, (BATCH, *spec.state_shape), dtype=torch.uint8)
    else:
        states = torch.randn(BATCH, *spec.state_shape)
    actions = torch.randn(BATCH, HORIZON, spec.action_size)
    weights = [torch.randn(HORIZON, BATCH), torch.randn(HORIZON, BATCH, 24), torch.randn(HORIZON, BATCH, 65)]

    def loss(predictions, _=None):  # any function of all predictions; nonlinear, so that its gradient depends on them
        return sum((w * p.square()).sum() for w, p in zip(weights, predictions, strict=True)), torch.tensor(7.0)

    steps, zs = [], networks.encode_state(encoder, observed(states, spec))
    for t in range(HORIZON):
        za = F.elu(F.linear(actions[:, t], encoder["g.action.weight"], encoder["g.action.bias"]))
        x = torch.cat([zs, za], 1)
        for layer in ("g.linear0", "g.linear1"):
            x = F.linear(x, encoder[f"{layer}.weight"], encoder[f"{layer}.bias"])
            x = F.elu(F.layer_norm(x, (32,)))
        zsa = F.linear(x, encoder["g.linear2.weight"], encoder["g.linear2.bias"])
        out = F.linear(zsa, encoder["m.weight"], encoder["m.bias"])
        zs = out[:, 1:25]
        steps.append((out[:, 0], zs, out[:, 25:]))
    value, _ = loss([torch.stack(tensors) for tensors in zip(*steps, strict=True)])
    expected = torch.autograd.grad(value, list(encoder.values()))
    plain = {name: tensor.detach() for name, tensor in encoder.items()}
    gradients, details = unrolled_gradients(loss, plain, observed(states, spec), actions)
    assert details == 7.0
    assert gradients.keys() == encoder.keys()
    for name, gradient in zip(encoder, expected, strict=True):
        tolerance = 1e-4 * float(gradient.abs().max())
        torch.testing.assert_close(gradients[name], gradient, rtol=1e-3, atol=tolerance, msg=lambda m, n=name: n + m)
