"""AdamW as a function: what it remembers of a network's gradients, and one step."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from mrq.execution import being_compiled

Parameters = dict[str, Tensor]  # of a network, by name


class Moments(NamedTuple):
    """Running means of each parameter's gradients and of their squares."""

    means: Parameters
    squares: Parameters
    steps: Parameters  # how many gradients there were, the same number for all


def initial_moments(parameters: Parameters) -> Moments:
    """Returns moments before the first gradient."""
    return Moments(
        means={name: torch.zeros_like(parameter) for name, parameter in parameters.items()},
        squares={name: torch.zeros_like(parameter) for name, parameter in parameters.items()},
        steps={name: parameter.new_zeros(()) for name, parameter in parameters.items()},
    )


def descend(parameters: Parameters, gradients: Parameters, moments: Moments, rate: float, weight_decay: float) -> None:
    """Takes one step of AdamW; changes the parameters and their moments."""
    compiling = being_compiled()  # PyTorch's compiler makes faster kernels than the fused one
    adamw(
        list(parameters.values()),
        [gradients[name] for name in parameters],
        list(moments.means.values()),
        list(moments.squares.values()),
        [],
        list(moments.steps.values()),
        fused=not compiling,
        foreach=compiling,
        capturable=all(parameter.is_cuda for parameter in parameters.values()),
        amsgrad=False,
        beta1=0.9,
        beta2=0.999,
        lr=rate,
        weight_decay=weight_decay,
        eps=1e-8,
        maximize=False,
    )
