"""Where training runs, and how precisely matrices are multiplied there."""

import os

import torch

from mrq.errors import MRQError
from mrq.training.settings import Precision, Settings

DEVICES = "auto, cpu, cuda, cuda:N or mps"


def chosen_device(name: str) -> torch.device:
    """Returns the device that `--device` names."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise MRQError(f"there is no device {name!r}; give {DEVICES}.") from None
    if device.type not in ("cpu", "cuda", "mps"):
        raise MRQError(f"the device {name!r} is not supported; give {DEVICES}.")
    if device.type == "cpu":
        return torch.device("cpu")  # tensors name it so, whatever number was given
    if device.type == "mps":
        if not torch.backends.mps.is_available():
            raise MRQError(f"{name} was asked for and PyTorch sees no GPU of Apple's; use cpu or auto.")
        return torch.device("mps")
    index = device.index or 0
    if index >= torch.cuda.device_count():
        raise MRQError(f"{name} was asked for and PyTorch sees {torch.cuda.device_count()} GPUs; use cpu or auto.")
    torch.cuda.set_device(index)  # streams, events and graphs belong to the present device
    return device


def chosen_precision(settings: Settings, device: torch.device) -> Precision:
    """Returns the precision of matrix products."""
    if settings.precision != "auto":
        return settings.precision
    has_bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    # On a part of a GPU's multiprocessors, CUDA 13.0 leaves parts of bf16 products unwritten; float32 works.
    on_a_part = os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "100") != "100"
    return "bf16" if has_bf16 and not on_a_part else "float32"


def set_precision(settings: Settings, device: torch.device) -> torch.dtype:
    """Returns the type in which matrices are multiplied. TF32 is a switch of PyTorch for the whole process."""
    precision = chosen_precision(settings, device)
    if device.type == "cuda":
        rounded = precision == "tf32"
        torch.set_float32_matmul_precision("high" if rounded else "highest")
        torch.backends.cudnn.allow_tf32 = rounded
    return torch.bfloat16 if precision == "bf16" else torch.float32


def overlaps(settings: Settings, device: torch.device) -> bool:
    """Says whether environments step while the device updates."""
    return settings.overlap == "on" or (settings.overlap == "auto" and device.type == "cuda")
