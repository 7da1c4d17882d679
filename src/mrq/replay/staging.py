"""Small arrays that the host fills in at every step and the device reads, at addresses that never change.

On a CPU both are the same memory. On a GPU the host's side is pinned and has several places, so that sending does not
wait for the device.
"""

import numpy as np
import torch

from mrq.interface import Array


class Staging:
    def __init__(self, device: torch.device, places: int, **arrays: tuple[tuple[int, ...], torch.dtype]) -> None:
        """The host may send as often as there are `places` before the device has come to it, and then waits."""
        on_gpu = device.type == "cuda"
        places = places if on_gpu else 1
        self._host = {
            name: torch.zeros(places, *shape, dtype=dtype, pin_memory=on_gpu) for name, (shape, dtype) in arrays.items()
        }
        self._numpy = {name: tensor.numpy() for name, tensor in self._host.items()}
        self.device = {name: tensor[0].to(device) for name, tensor in self._host.items()}
        self._sent = [torch.cuda.Event() for _ in range(places)] if on_gpu else []
        self._place = 0

    def send(self, **arrays: Array) -> None:
        if self._sent:
            self._place = (self._place + 1) % len(self._sent)
            self._sent[self._place].synchronize()  # what was sent from here has left
        for name, array in arrays.items():
            np.copyto(self._numpy[name][self._place], array, casting="same_kind")
        if self._sent:
            for name in arrays:
                self.device[name].copy_(self._host[name][self._place], non_blocking=True)
            self._sent[self._place].record()
