"""How much memory is free, and host memory that a GPU reads directly."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mrq.errors import MRQError

CGROUPS = Path("/sys/fs/cgroup")


def available_memory(device: torch.device) -> int:
    """Returns the bytes free for us: of the GPU, or of the machine and the container or cluster job we may be in."""
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # PyTorch keeps it for reuse
        return torch.cuda.mem_get_info(device)[0] + kept
    return min([_machine(), *_groups()])


def refuse_beyond_memory(needed: int, device: torch.device) -> None:
    """Refuses agents that take more bytes than are free."""
    available = available_memory(device)
    if needed > available:
        raise MRQError(
            f"the agents would take {readable(needed)} or more and {device} has {readable(available)} free; use "
            "smaller networks, batches or periods, or fewer agents."
        )


def readable(size: int) -> str:
    """Writes a number of bytes as MB or GB."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"


def in_pinned_memory(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Returns zeroed bytes of the host as a GPU tensor, which kernels read and write directly."""
    memory = np.zeros(shape, np.uint8)
    failed = torch.cuda.cudart().cudaHostRegister(memory.ctypes.data, memory.nbytes, 0)
    if int(failed) != 0:
        raise MRQError(
            f"{readable(memory.nbytes)} of host memory could not be pinned for the replay ({failed}); "
            "raise the limit (ulimit -l), or use a smaller --replay-capacity."
        )
    return torch.as_tensor(_Pinned(memory), device=device)


class _Pinned:
    """Keeps pinned memory alive as long as a tensor uses it."""

    def __init__(self, memory: np.ndarray[Any, Any]) -> None:
        self.memory = memory
        self.__cuda_array_interface__ = {
            "shape": memory.shape,
            "typestr": "|u1",
            "data": (memory.ctypes.data, False),
            "version": 3,
        }

    def __del__(self) -> None:
        torch.cuda.cudart().cudaHostUnregister(self.memory.ctypes.data)


def _machine() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


def _groups() -> list[int]:
    """Returns what is left of the memory limits of this process's control group (version 2) and those above it."""
    try:
        group = CGROUPS / Path("/proc/self/cgroup").read_text().strip().rpartition("::")[2].lstrip("/")
    except OSError:
        return []
    left = []
    for folder in (group, *group.parents):
        try:
            limit, used = (int((folder / name).read_text()) for name in ("memory.max", "memory.current"))
            statistics = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):  # no limit here, or no control group
            continue
        left.append(limit - used + int(statistics["inactive_file"]))
    return left
