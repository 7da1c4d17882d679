"""The baseline of docs/baselines.md: it always does the same."""

import json

import numpy as np

from mrq.baselines.baseline import Kind


class Constant:
    parameters = 0

    def __init__(self, beginning):
        self.environment, saved = beginning.environment, beginning.saved
        self.steps = json.loads((saved / "steps.json").read_text()) if saved else 0

    def learn(self, total_steps, on_step):
        going_on, over = True, True
        while self.steps < total_steps and going_on:
            if over:
                self.environment.reset()
            _, _, terminated, truncated, _ = self.environment.step(self.environment.action_space.sample())
            over = terminated or truncated
            self.steps += 1
            going_on = on_step()

    def act(self, states):
        return np.zeros((len(states), *self.environment.action_space.shape), int)

    def save(self, folder):
        (folder / "steps.json").write_text(json.dumps(self.steps))


CONSTANT = Kind("constant", ("discrete", "continuous"), Constant)
