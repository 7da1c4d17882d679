"""DrQ-v2 once more, as plainly as it can be written: one agent, torch.nn modules, torch.optim.Adam.

What it shares with mrq is data: the initial weights, the windows, and the random numbers.
"""

import copy

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn


class Encoder(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList([nn.Conv2d(channels, 32, 3, 2)] + [nn.Conv2d(32, 32, 3, 1) for _ in range(3)])

    def forward(self, images: Tensor) -> Tensor:
        x = images.float() / 255 - 0.5
        for convolution in self.convolutions:
            x = F.relu(convolution(x))
        return x.permute(0, 2, 3, 1).flatten(1)


def trunk(encoded: int, features: int) -> nn.Module:
    return nn.Sequential(nn.Linear(encoded, features), nn.LayerNorm(features), nn.Tanh())


def perceptron(inputs: int, outputs: int, width: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)
    )


class Actor(nn.Module):
    def __init__(self, encoded: int, actions: int, features: int, width: int) -> None:
        super().__init__()
        self.trunk, self.policy = trunk(encoded, features), perceptron(features, actions, width)

    def forward(self, encoded: Tensor) -> Tensor:
        return torch.tanh(self.policy(self.trunk(encoded)))


class Critic(nn.Module):
    def __init__(self, encoded: int, actions: int, features: int, width: int) -> None:
        super().__init__()
        self.trunk = trunk(encoded, features)
        self.first, self.second = (perceptron(features + actions, 1, width) for _ in range(2))

    def forward(self, encoded: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.cat([self.trunk(encoded), actions], 1)
        return self.first(x)[:, 0], self.second(x)[:, 0]


def shifted(images: Tensor, offsets: Tensor) -> Tensor:
    """Pads by four pixels and crops, as the original does: by sampling a grid of pixel centres bilinearly."""
    count, _, height, width = images.shape
    padded = F.pad(images.float(), (4, 4, 4, 4), mode="replicate")
    rows = (torch.arange(height) + offsets[:, :1] + 0.5) / (height + 8) * 2 - 1  # (count, height)
    columns = (torch.arange(width) + offsets[:, 1:] + 0.5) / (width + 8) * 2 - 1
    grid = torch.stack(
        [columns[:, None].expand(count, height, width), rows[:, :, None].expand(count, height, width)], -1
    )
    return F.grid_sample(padded, grid, mode="bilinear", align_corners=False)


def renamed(network: str, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns a network's parameters, as mrq names them, as a state_dict of the modules here."""
    if network == "encoder":
        return {name.replace("convolution", "convolutions."): tensor for name, tensor in parameters.items()}
    places = {"trunk.linear": "trunk.0", "trunk.norm": "trunk.1", "linear0": "0", "linear1": "2", "head": "4"}
    state = {}
    for name, tensor in parameters.items():
        layer, _, kind = name.rpartition(".")
        place = f"{places[layer]}.{kind}"
        if layer.startswith("trunk"):
            state[place] = tensor
        elif network == "actor":
            state[f"policy.{place}"] = tensor
        else:
            state |= {f"first.{place}": tensor[0], f"second.{place}": tensor[1]}
    return state


class PlainDrQV2:
    """One agent. `initial` holds its parameters as mrq names them, `h` its hyperparameters."""

    def __init__(self, initial, channels, actions, h, decay) -> None:
        self.h, self.decay = h, decay
        encoded = initial["actor"]["trunk.linear.weight"].shape[1]
        self.networks = {
            "encoder": Encoder(channels),
            "critic": Critic(encoded, actions, h.feature_size, h.hidden_width),
            "actor": Actor(encoded, actions, h.feature_size, h.hidden_width),
        }
        for name, network in self.networks.items():
            network.load_state_dict(renamed(name, initial[name]))
        self.target = copy.deepcopy(self.networks["critic"])
        self.optimisers = {
            name: torch.optim.Adam(n.parameters(), lr=h.learning_rate) for name, n in self.networks.items()
        }

    def noisy(self, means: Tensor, noise: Tensor, step: int) -> Tensor:
        share = min(step / self.decay, 1)
        std = (1 - share) * 1.0 + share * 0.1
        actions = means + (std * noise).clamp(-0.3, 0.3)
        # Clamped, but with the gradient of what is not.
        return actions - actions.detach() + actions.detach().clamp(-1 + 1e-6, 1 - 1e-6)

    def update(self, states, actions, rewards, alive, noise, step):
        """Updates with one agent's windows; returns the critic's loss, its mean value, and the actor's loss."""
        encoder, critic, actor = self.networks.values()
        first = encoder(shifted(states[:, 0], noise["shift"][:, 0]))
        with torch.no_grad():
            last = encoder(shifted(states[:, 1], noise["shift"][:, 1]))
            values = self.target(last, self.noisy(actor(last), noise["target_noise"], step))
            target = torch.minimum(*values) * alive[:, 3] * 0.99**3
            for index in range(3):
                target += 0.99**index * alive[:, index] * rewards[:, index]
        one, two = critic(first, actions[:, 0])
        critic_loss = F.mse_loss(one, target) + F.mse_loss(two, target)
        self.step(critic_loss, "encoder", "critic")
        encoded = first.detach()
        actor_loss = -torch.minimum(*critic(encoded, self.noisy(actor(encoded), noise["actor_noise"], step))).mean()
        self.step(actor_loss, "actor")
        for ours, theirs in zip(self.target.parameters(), critic.parameters(), strict=True):
            ours.data.copy_(0.01 * theirs.data + 0.99 * ours.data)
        return critic_loss.item(), (one.mean() + two.mean()).item() / 2, actor_loss.item()

    def step(self, loss: Tensor, *networks: str) -> None:
        for name in self.networks:
            self.optimisers[name].zero_grad()
        loss.backward()
        for name in networks:
            self.optimisers[name].step()
