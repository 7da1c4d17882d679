"""Plays an exported policy with NumPy and onnxruntime alone: python examples/play_onnx.py policy.onnx CartPole-v1"""

import sys

import gymnasium as gym
import numpy as np
import onnxruntime

DTYPES = {"tensor(float)": np.float32, "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_, "tensor(int64)": np.int64}


def play(policy: onnxruntime.InferenceSession, environment: gym.Env, seed: int) -> float:
    """Plays an episode of an environment without Dict spaces; returns what it earned."""
    inputs, outputs = policy.get_inputs(), [output.name for output in policy.get_outputs()]
    state = {i.name: np.zeros((1, *i.shape[1:]), DTYPES[i.type]) for i in inputs if i.name.startswith("state.")}
    (observation, info), total, over, first = environment.reset(seed=seed), 0.0, False, True
    while not over:
        feed = {"observation": np.asarray(observation)[None], **state}
        if state:
            feed["episode_start"] = np.array([first])
        if "action_mask" in info:
            feed["action_mask"] = np.asarray(info["action_mask"])[None]
        result = dict(zip(outputs, policy.run(None, feed), strict=True))
        state = {name: result[f"next_{name}"] for name in state}
        observation, reward, terminated, truncated, info = environment.step(result["action"][0])
        total, over, first = total + float(reward), terminated or truncated, False
    return total


if __name__ == "__main__":
    session = onnxruntime.InferenceSession(sys.argv[1])
    for episode in range(5):
        print(f"episode {episode}: return {play(session, gym.make(sys.argv[2]), episode):,.1f}")
