"""How long a policy takes to act, on one core and one observation: python benchmarks/export.py

Networks of the paper's sizes, not trained: for a vector (Pendulum-v1) and for Atari-like images (210x160 RGB, resized).
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import gymnasium as gym
import numpy as np
import onnxruntime
import torch

from mrq import MRQ, load_policy

CALLS, WARM_UP = 300, 20


class Screen(gym.Env[np.ndarray, np.int64]):
    """Noise of the size of an Atari screen."""

    observation_space = gym.spaces.Box(0, 255, (210, 160, 3), np.uint8)
    action_space = gym.spaces.Discrete(6)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


def milliseconds(call: Callable[[], object]) -> float:
    """Returns the shortest time of a call, since others may use the machine."""
    seconds = []
    for _ in range(WARM_UP + CALLS):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return 1e3 * min(seconds[WARM_UP:])


def acting(predict: Callable[..., tuple[object, object]], observation: np.ndarray) -> Callable[[], object]:
    state = predict(observation, deterministic=True)[1]
    return lambda: predict(observation, state, deterministic=True)


def by_onnx(path: Path, observation: np.ndarray) -> Callable[[], object]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    feed = {"observation": observation[None]}
    for wanted in session.get_inputs():
        if wanted.name.startswith("state."):
            feed |= {wanted.name: np.zeros((1, *wanted.shape[1:]), np.uint8), "episode_start": np.array([False])}
    return lambda: session.run(None, feed)


def by_pytorch(path: Path, observation: np.ndarray, compiled: bool) -> Callable[[], object]:
    program = torch.export.load(path)
    feed = {"observation": torch.from_numpy(observation[None])}
    for name, tensor in program.example_inputs[0][0].items():
        feed.setdefault(name, torch.zeros(1, *tensor.shape[1:], dtype=tensor.dtype))
    module = torch.compile(program.module()) if compiled else program.module()

    def call() -> object:
        with torch.no_grad():
            return module(feed)

    return call


def main() -> None:
    torch.set_num_threads(1)
    print("| agent | `MRQ.predict` | `load_policy(…).predict` | `.pt2` | `.pt2`, compiled | ONNX | ONNX file |")
    print("|---|---|---|---|---|---|---|")
    for name, env in (("vector", "Pendulum-v1"), ("image", Screen)):
        agent = MRQ(env, device="cpu")
        observation = agent.observation_space.sample()
        with TemporaryDirectory() as folder:
            run, onnx, pt2 = (Path(folder) / file for file in ("run", "policy.onnx", "policy.pt2"))
            agent.save(run)
            agent.export(onnx)
            agent.export(pt2)
            calls = [
                acting(agent.predict, observation),
                acting(load_policy(run, device="cpu").predict, observation),
                by_pytorch(pt2, observation, compiled=False),
                by_pytorch(pt2, observation, compiled=True),
                by_onnx(onnx, observation),
            ]
            times = " | ".join(f"{milliseconds(call):.2f} ms" for call in calls)
            print(f"| {name} | {times} | {onnx.stat().st_size / 1e6:.1f} MB |", flush=True)


if __name__ == "__main__":
    main()
