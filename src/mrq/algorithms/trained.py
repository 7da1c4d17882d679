"""What P agents learn, over a leading agent axis: networks, target networks and optimiser moments.

Agents may differ in the sizes of their observations and actions. Their parameters are then padded with zeros, which
meet only zeros in what is observed, drawn and done, and so stay zeros.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mrq.algorithms.optimiser import Moments, Parameters, initial_moments
from mrq.interface import Array
from mrq.padding import stack_padded, within
from mrq.restoring import restore

Networks = dict[str, Parameters]  # by name


class Trained:
    """The networks of all agents by name, target copies of some of them, and AdamW's moments of each."""

    def __init__(self, initial: Sequence[Networks], targets: Sequence[str], device: torch.device) -> None:
        """`initial` are the parameters of each agent; `targets` name the networks that have target copies."""
        self._shapes = [{n: {k: t.shape for k, t in p.items()} for n, p in agent.items()} for agent in initial]
        self.networks: Networks = {
            network: {name: stack_padded([agent[network][name] for agent in initial]).to(device) for name in parameters}
            for network, parameters in initial[0].items()
        }
        self.targets: Networks = {
            network: {name: tensor.clone() for name, tensor in self.networks[network].items()} for network in targets
        }
        self.moments: dict[str, Moments] = {name: initial_moments(p) for name, p in self.networks.items()}

    def parameters_of(self, agent: int) -> int:
        """Returns how many numbers one agent learns."""
        return sum(shape.numel() for network in self._shapes[agent].values() for shape in network.values())

    def networks_of(self, agent: int) -> dict[str, Tensor]:
        """Returns one agent's parameters by name."""
        return _on_host(self._own(agent, learned_alone=True))

    def load_networks_of(self, agent: int, tensors: Mapping[str, Array | Tensor]) -> None:
        """Restores what `networks_of` returned, or that part of what `state_of` did."""
        for name, tensor in self._own(agent, learned_alone=True).items():
            restore(tensor, tensors, name)

    def state_of(self, agent: int) -> dict[str, Tensor]:
        """Returns one agent's parameters, targets and moments by name, and how often each network stepped."""
        tensors = _on_host(self._own(agent))
        steps = {f"steps.{network}": self._step_counts(network)[0].cpu() for network in self.networks}
        return tensors | steps

    def load_state_of(self, agent: int, tensors: Mapping[str, Array | Tensor]) -> None:
        """Restores what `state_of` returned."""
        for name, tensor in self._own(agent).items():
            restore(tensor, tensors, name)
        for network in self.networks:
            for count in self._step_counts(network):
                restore(count, tensors, f"steps.{network}")

    def _step_counts(self, network: str) -> list[Tensor]:
        """Returns one count per parameter; all are the same."""
        return list(self.moments[network].steps.values())

    def _own(self, agent: int, learned_alone: bool = False) -> dict[str, Tensor]:
        """Returns one agent's tensors by name, without padding; all of them, or what it learned alone."""
        tensors = {}
        for network, parameters in self.networks.items():
            kinds = {"": parameters}
            if not learned_alone:
                moments = self.moments[network]
                kinds |= {"mean.": moments.means, "square.": moments.squares}
                if network in self.targets:
                    kinds["target."] = self.targets[network]
            for kind, of_kind in kinds.items():
                for name, tensor in of_kind.items():
                    own: tuple[int | slice, ...] = (agent, *within(self._shapes[agent][network][name]))
                    tensors[f"{kind}{network}.{name}"] = tensor[own]
        return tensors


def _on_host(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
