"""Imports all that commands import, so that a fork of this process need not."""

import importlib
import pkgutil

import torch

import mrq


def import_everything() -> None:
    """Imports every module of mrq, and what they import when they are first used; starts no thread."""
    for module in pkgutil.walk_packages(mrq.__path__, "mrq."):
        if module.name not in ("mrq.__main__", "mrq.benchmark.ray_engine"):
            importlib.import_module(module.name)
    for name in ("gymnasium.envs.classic_control", "torch.utils.tensorboard", "torch._dynamo", "stable_baselines3"):
        importlib.import_module(name)
    torch.set_num_threads(1)
