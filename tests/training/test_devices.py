"""What auto means on which device."""

import pytest
import torch

from mrq import MRQError
from mrq.training.compiling import worth_compiling
from mrq.training.devices import chosen_device, chosen_precision
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
    monkeypatch.delenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", raising=False)
    assert chosen_precision(Settings(precision=asked), torch.device(device)) == chosen


def test_a_gpu_is_taken_by_its_number_or_without(monkeypatch):
    taken = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch._C, "_cuda_setDevice", taken.append, raising=False)
    assert [str(chosen_device(name)) for name in ("cuda", "cuda:0", "cuda:1")] == ["cuda", "cuda:0", "cuda:1"]
    assert taken == [0, 0, 1]
    assert chosen_device("cpu:3") == torch.zeros(1).device
    with pytest.raises(MRQError, match="cuda:2 was asked for and PyTorch sees 2 GPUs"):
        chosen_device("cuda:2")


def test_apples_gpu_is_taken_where_there_is_one(monkeypatch):
    with pytest.raises(MRQError, match="mps was asked for and PyTorch sees no GPU of Apple's; use cpu or auto"):
        chosen_device("mps")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert str(chosen_device("mps")) == str(chosen_device("mps:0")) == "mps"
    assert chosen_device("auto").type != "mps"
    assert not worth_compiling(Settings(steps=10**6), torch.device("mps"))
    assert chosen_precision(Settings(), torch.device("mps")) == "float32"


@pytest.mark.parametrize(("share", "chosen"), [("60", "float32"), ("100", "bf16")])
def test_part_of_a_gpu_is_not_trusted_with_bf16(share, chosen, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    monkeypatch.setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", share)
    assert chosen_precision(Settings(), torch.device("cuda")) == chosen
