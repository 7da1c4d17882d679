"""What the networks of several algorithms share: products in lower precision."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from mrq.algorithms.optimiser import Parameters


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiplies in the weights' precision and returns float32."""
    return F.linear(x.to(weight.dtype), weight, None if bias is None else bias.to(weight.dtype)).float()


def rounded(parameters: Parameters, dtype: torch.dtype, full: tuple[str, ...]) -> Parameters:
    """Rounds all parameters except those whose names begin as one of `full`; these stay in full precision."""
    return {name: tensor if name.startswith(full) else tensor.to(dtype) for name, tensor in parameters.items()}
