"""Small arrays that the host fills in at every step and the device reads, at addresses that never change.

On a CPU both are the same memory. On a GPU the host's side is pinned, so that sending does not wait for the device.
"""

import numpy as np
import torch

from mrq.interface import Array


class Staging:
    def __init__(self, device: torch.device, **arrays: tuple[tuple[int, ...], torch.dtype]) -> None:
        on_gpu = device.type == "cuda"
        host = {name: torch.zeros(shape, dtype=dtype, pin_memory=on_gpu) for name, (shape, dtype) in arrays.items()}
        self.device = {name: tensor.to(device) for name, tensor in host.items()}
        self._host = host
        self._numpy = {name: tensor.numpy() for name, tensor in host.items()}
        self._sent = torch.cuda.Event() if on_gpu else None

    def send(self, **arrays: Array) -> None:
        if self._sent is not None:
            self._sent.synchronize()  # the last arrays have left
        for name, array in arrays.items():
            np.copyto(self._numpy[name], array, casting="same_kind")
        if self._sent is not None:
            for name in arrays:
                self.device[name].copy_(self._host[name], non_blocking=True)
            self._sent.record()
