"""A library of algorithms that treats its environment as Stable-Baselines3 does, and keeps what it sees."""

import json

import numpy as np
import torch


class Scripted:
    """An algorithm that always takes the same action. `seen` holds each call of its environment and the answer."""

    action: object = 0  # tests set it

    def __init__(self, policy, environment, *, seed, device):
        self.environment, self.num_timesteps, self.seen = environment, 0, []
        self.policy = torch.nn.Linear(1, 1)
        self.observed = False  # whether it knows its environment's state

    def learn(self, steps, reset_num_timesteps):
        assert not reset_num_timesteps
        if not self.observed:
            self.reset()
        for _ in range(steps):
            state, reward, terminated, truncated, _ = self.environment.step(self.action)
            self.seen.append(("step", state.tolist(), reward, terminated, truncated))
            if terminated or truncated:
                self.reset()  # at once, as vectors of environments do
            self.num_timesteps += 1

    def reset(self):
        state, _ = self.environment.reset()
        self.seen.append(("reset", state.tolist()))
        self.observed = True

    def predict(self, states, deterministic):
        assert deterministic
        return np.stack([np.asarray(self.action)] * len(states)), None

    def save(self, file):
        file.write(json.dumps(self.num_timesteps).encode())

    @classmethod
    def load(cls, file, environment, device):
        made = cls("", environment, seed=0, device=device)
        made.num_timesteps = json.loads(file.read())
        return made
