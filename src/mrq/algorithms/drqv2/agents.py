"""The parameters of P agents, what they learn with, and their updates, over a leading agent axis.

What an agent computes is written for one agent, in updates.py; here it is done for one agent after the other, since
convolutions of several agents gain nothing side by side. Nothing mixes agents.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from mrq.algorithms.drqv2 import updates
from mrq.algorithms.drqv2.batch import Batch
from mrq.algorithms.drqv2.exploration import standard_deviation
from mrq.algorithms.drqv2.hyperparameters import Hyperparameters
from mrq.algorithms.drqv2.networks import initial_networks
from mrq.algorithms.drqv2.noise import Noise
from mrq.algorithms.optimiser import Parameters, descend
from mrq.algorithms.trained import Trained
from mrq.execution import Function, over_agents
from mrq.interface import Array, Spec, Windows, common_spec
from mrq.restoring import restore

NETWORKS = ("encoder", "critic", "actor")
METRICS = ("critic_loss", "value_mean", "actor_loss", "exploration_std")


class Agents:
    """P agents: networks, target critics, optimiser moments, and one update at a time."""

    def __init__(
        self,
        specs: Sequence[Spec],  # one per agent
        hyperparameters: Hyperparameters,
        generators: Sequence[np.random.Generator],  # one per agent, for its initial parameters
        decays: Sequence[int],  # one per agent: environment steps over which its exploration noise falls
        device: torch.device,
        dtype: torch.dtype = torch.float32,  # in which matrices are multiplied
    ) -> None:
        self.spec, self.hyperparameters, self.device = common_spec(specs), hyperparameters, device
        h = hyperparameters
        initial = [initial_networks(g, spec, h) for spec, g in zip(specs, generators, strict=True)]
        self.trained = trained = Trained(initial, targets=("critic",), device=device)
        self.networks, self.moments = trained.networks, trained.moments
        self.target_critic = trained.targets["critic"]
        self.metrics = torch.zeros(len(specs), len(METRICS), device=device)  # of the latest update
        self._decays = torch.tensor(decays, device=device)
        constants = updates.Constants(h, dtype)
        each = partial(over_agents, one_by_one=True)
        self.functions = {
            "explore": each(partial(updates.explore, constants=constants)),
            "critic_gradients": each(partial(updates.critic_gradients, constants=constants)),
            "actor_gradients": each(partial(updates.actor_gradients, constants=constants)),
        }
        step = partial(descend, rate=h.learning_rate, weight_decay=0.0)
        self.functions |= {f"descend_{network}": Function(step, changes_arguments=True) for network in NETWORKS}
        self._act = each(partial(updates.act, constants=constants))  # for any number of states, so it is not compiled

    @torch.no_grad()
    def update(self, windows: Windows, noise: Noise, step: Tensor) -> None:
        """Does one update: encoder and critic, then the actor, then the target critic. `step` is the environment's."""
        f, networks = self.functions, self.networks
        std = standard_deviation(step, self._decays, self.hyperparameters)
        batch = Batch(windows.states, windows.actions, windows.rewards, windows.alive, noise, std)
        of_encoder, of_critic, encoded, of_loss = f["critic_gradients"](networks, self.target_critic, batch)
        self._descend("critic", of_critic)
        self._descend("encoder", of_encoder)
        of_actor, actor_loss = f["actor_gradients"](networks, encoded, batch)
        self._descend("actor", of_actor)
        targets, critics = list(self.target_critic.values()), list(networks["critic"].values())
        torch._foreach_lerp_(targets, critics, self.hyperparameters.target_rate)
        self.metrics.copy_(torch.cat([of_loss, actor_loss, std[:, None]], 1))

    @torch.no_grad()
    def explore(self, states: Tensor, noise: Tensor, step: Tensor) -> Tensor:
        """Returns training actions (agents, count, action_size) for states (agents, count, *state_shape)."""
        std = standard_deviation(step, self._decays, self.hyperparameters)
        actions: Tensor = self.functions["explore"](self.networks, states, noise, std)
        return actions

    @torch.no_grad()
    def act(self, states: Tensor) -> Tensor:
        """Returns evaluation actions (agents, count, action_size)."""
        actions: Tensor = self._act(self.networks, states)
        return actions

    def parameters_of(self, agent: int) -> int:
        """Returns how many numbers one agent learns."""
        return self.trained.parameters_of(agent)

    def state_of(self, agent: int) -> dict[str, Tensor]:
        """Returns one agent's networks and metrics."""
        return self.trained.state_of(agent) | {"metrics": self.metrics[agent].cpu().contiguous()}

    def load_state_of(self, agent: int, tensors: Mapping[str, Array | Tensor]) -> None:
        """Restores what `state_of` returned."""
        self.trained.load_state_of(agent, tensors)
        restore(self.metrics[agent], tensors, "metrics")

    def _descend(self, network: str, gradients: Parameters) -> None:
        self.functions[f"descend_{network}"](self.networks[network], gradients, self.moments[network])
