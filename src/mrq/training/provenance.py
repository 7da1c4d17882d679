"""What a run was made on and with: the machine, and the versions of everything."""

import importlib.metadata
import platform
from pathlib import Path
from typing import Any

import torch

from mrq.processes import cores


def machine() -> dict[str, Any]:
    """Describes this machine."""
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "platform": platform.platform(),
        "cpu": _cpu(),
        "cpus": cores(),
        "torch_threads": torch.get_num_threads(),
        "gpus": gpus,
    }


def versions() -> dict[str, str]:
    """Returns the versions of Python and of every installed package."""
    packages = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions()}
    return {"python": platform.python_version(), **dict(sorted(packages.items(), key=lambda item: item[0].lower()))}


def _cpu() -> str:
    """Returns the CPU's name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [
        value.strip() for name, _, value in (line.partition(":") for line in lines) if name.strip() == "model name"
    ]
    return names[0] if names else platform.processor()
