"""Trains, evaluates, loads and saves one environment as a user does, in a Python that has its package.

The arguments are those of `mrq train`. The last line that it prints says, as JSON, what the networks see and choose.
It is one process, because importing PyTorch takes longer than the rest. The processes that mrq starts import this file
again, so it imports mrq only where it is used.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mrq.interface import Image, Spec

COLOURS = {1: "grey", 3: "RGB"}


def main() -> None:
    """Does so in the current folder."""
    from mrq import MRQ
    from mrq.environments.checked import CheckedEnvironment
    from mrq.training.run_folder import RunFolder

    command("train", *sys.argv[1:])
    folder = next(Path("runs").rglob("run.json")).parent
    command("evaluate", str(folder), "--trust", "--episodes", "1")
    recipe = RunFolder(folder.absolute()).recipe()
    environment = recipe.make()
    observation, info = environment.reset(seed=0)
    agent = MRQ.load(folder, env=environment)
    action, _ = agent.predict(observation, action_masks=info.get("action_mask"))
    assert action in environment.action_space, f"{action!r} is not in {environment.action_space}"
    agent.save(folder.with_name("saved"))
    checked = CheckedEnvironment(environment, recipe.options)
    print(json.dumps({"observation": observed(checked.spec), "action": chosen(checked.spec, checked.gives_masks(0))}))


def command(*arguments: str) -> None:
    """Runs a command of mrq."""
    from mrq.cli import main as mrq

    sys.argv[1:] = arguments
    mrq()


def observed(spec: Spec) -> str:
    """Returns what the networks see, in words."""
    parts = [_image(image) for image in spec.images]
    parts += [_numbers(spec.numbers)] * bool(spec.numbers)
    return ", ".join(parts) + (f"; the last {spec.history}" if spec.history > 1 else "")


def chosen(spec: Spec, masked: bool) -> str:
    """Returns what the policy chooses, in words."""
    parts = [_numbers(spec.continuous)] * bool(spec.continuous)
    parts += [f"one of {' and of '.join(map(str, spec.choices))}"] * bool(spec.choices)
    return ", ".join(parts) + "; masked" * masked


def _numbers(count: int) -> str:
    return f"{count:,} number{'s' * (count > 1)}"


def _image(image: Image) -> str:
    colours = COLOURS.get(image.channels, f"{image.channels} channels")
    return f"image {image.height}x{image.width} {colours}"


if __name__ == "__main__":
    main()
