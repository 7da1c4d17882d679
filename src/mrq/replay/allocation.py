"""How much memory a replay takes, where it lies, and whether the machine has it."""

import numpy as np
import torch
from torch import Tensor

from mrq.errors import MRQError
from mrq.interface import SMALLEST_CAPACITY, ReplaySettings, Spec
from mrq.memory import available_memory, in_pinned_memory, readable

FLAGS = ("rewards", "terminated", "complete", "preceding")  # a slot's numbers, before those of its action
UPDATES_MEMORY = 4_000_000_000  # bytes that updates on images may need beside the replay


def slots_needed(total_steps: int, settings: ReplaySettings, copies: int = 1) -> int:
    """Returns the slots that so many steps fill: one per observation, in episodes that may be a single step long.

    Each of an agent's environments, its copies, has as many of them. Deviation: the capacity counts observations, of
    which an episode has one more than transitions.
    """
    if settings.capacity < copies * SMALLEST_CAPACITY:
        raise MRQError(
            f"replay_capacity is {settings.capacity:,}; with {copies:,} environments it must be at least "
            f"{copies * SMALLEST_CAPACITY:,}."
        )
    each = max(2 * -(-total_steps // copies), SMALLEST_CAPACITY)
    return copies * min(settings.capacity // copies, each)


def bytes_needed(agents: int, spec: Spec, slots: int) -> tuple[int, int]:
    """Returns the bytes that frames take, and those that everything else takes."""
    frame = int(np.prod(spec.frame_shape)) * np.dtype(spec.frame_dtype).itemsize
    return agents * slots * frame, agents * slots * 4 * (len(FLAGS) + spec.action_size + 1)


def reserve(agents: int, spec: Spec, slots: int, device: torch.device) -> str:
    """Says how much memory a replay will take at most and where, or refuses where the machine does not have it."""
    frames, records = bytes_needed(agents, spec, slots)
    needed, available = frames + records, available_memory(device)
    what = f"replay of up to {slots:,} observations per agent"
    if _frames_in_host_memory(agents, spec, slots, device):
        on_host = available_memory(torch.device("cpu"))
        if frames <= on_host and records <= available:
            return (
                f"{what}: {readable(frames)} of frames in pinned host memory, of {readable(on_host)} free, and "
                f"{readable(records)} on {device}, of {readable(available)} free"
            )
    elif needed <= available:
        return f"{what}: {readable(needed)} of {readable(available)} free on {device}"
    raise MRQError(
        f"the replay would take {readable(needed)} and {device} has {readable(available)} free; "
        f"--replay-capacity {slots * available // needed * 9 // 10} would fit, as would fewer agents or steps."
    )


def zero_frames(agents: int, spec: Spec, slots: int, device: torch.device) -> Tensor:
    """Returns room for frames, in host memory that a GPU reads directly where it has no room itself.

    There is one slot more than the ring has; see Storage.
    """
    shape, dtype = (agents, slots + 1, *spec.frame_shape), torch.uint8 if spec.images else torch.float32
    if _frames_in_host_memory(agents, spec, slots, device):
        return in_pinned_memory(shape, device)
    return zeros(shape, dtype, device)


def zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Returns zeros; on the CPU, in memory that the system hands out only once it is written to."""
    if device.type == "cpu":
        return torch.from_numpy(np.zeros(shape, torch.empty((), dtype=dtype).numpy().dtype))
    return torch.zeros(shape, dtype=dtype, device=device)


def _frames_in_host_memory(agents: int, spec: Spec, slots: int, device: torch.device) -> bool:
    """Says whether a GPU has no room for images beside the rest and what updates need."""
    needed = sum(bytes_needed(agents, spec, slots)) + UPDATES_MEMORY
    return device.type == "cuda" and bool(spec.images) and needed > available_memory(device)
