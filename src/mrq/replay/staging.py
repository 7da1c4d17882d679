"""Small arrays that the host fills at every step and the device reads, at addresses that never change."""

import numpy as np
import torch

from mrq.interface import Array

PLACES = 256  # a device may be this many steps behind, with overlap and encoder updates in bursts


class Staging:
    """On a CPU both sides are the same memory. On an NVIDIA GPU the host's is pinned, with several places.

    So sending does not wait for the device, until it is as many steps behind as there are places. On other devices it
    waits.
    """

    def __init__(self, device: torch.device, **arrays: tuple[tuple[int, ...], torch.dtype]) -> None:
        """`arrays` are shapes and types by name."""
        on_gpu = device.type == "cuda"  # NVIDIA's
        places = PLACES if on_gpu else 1
        self._host = {
            name: torch.zeros(places, *shape, dtype=dtype, pin_memory=on_gpu) for name, (shape, dtype) in arrays.items()
        }
        self._numpy = {name: tensor.numpy() for name, tensor in self._host.items()}
        self.device = {name: tensor[0].to(device) for name, tensor in self._host.items()}
        self._sent = [torch.cuda.Event() for _ in range(places)] if on_gpu else []
        self._place = 0

    def send(self, **arrays: Array) -> None:
        """Has the device read these arrays."""
        if self._sent:
            self._place = (self._place + 1) % len(self._sent)
            self._sent[self._place].synchronize()  # what was sent from here before has arrived
        for name, array in arrays.items():
            np.copyto(self._numpy[name][self._place], array, casting="same_kind")
        for name in arrays:
            if self.device[name].device.type != "cpu":
                self.device[name].copy_(self._host[name][self._place], non_blocking=bool(self._sent))
        if self._sent:
            self._sent[self._place].record()
