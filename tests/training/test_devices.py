"""What auto means on which device."""

import pytest
import torch

from mrq.training.devices import chosen_precision
from mrq.training.settings import Settings


@pytest.mark.parametrize(
    ("asked", "device", "has_bf16", "chosen"),
    [
        ("auto", "cpu", True, "float32"),
        ("auto", "cuda", True, "bf16"),
        ("auto", "cuda", False, "float32"),
        ("tf32", "cuda", True, "tf32"),
        ("float32", "cuda", True, "float32"),
    ],
)
def test_precision_by_device(asked, device, has_bf16, chosen, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has_bf16)
    assert chosen_precision(Settings(precision=asked), torch.device(device)) == chosen
