"""Seconds and steps until a stated return: MR.Q's small preset beside Stable-Baselines3's algorithms, on this machine.

python -m benchmarks.laptop RESULTS.csv [--tasks …] [--systems …] [--seeds 5]

One run after the other, each in a process of its own that has all cores. Seconds count from the command to the first
evaluation of ten episodes that reaches the return: imports, compiling without a cache, and evaluations included. Every
system is evaluated equally often. A run that needs more seconds or steps than the limit has not arrived. Runs that
RESULTS.csv has already are not repeated, so the command can be stopped and given again; at the end the table is
printed. LunarLander needs `pip install swig "gymnasium[box2d]"`.
"""

import csv
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tyro
from benchmarks.laptop_tuned import TUNED

from mrq.markdown import markdown_table
from mrq.training.run_creation import run_path

SEEDS = 5
POLL = 0.05  # seconds
COLUMNS = ("task", "system", "seed", "seconds", "steps")  # without seconds and steps, it has not arrived


class Goal(NamedTuple):
    """What a run has to reach, and how long it may take."""

    value: float
    evaluate_every: int
    seconds: float
    steps: int  # that MR.Q's command asks for


GOALS = {
    "Pendulum-v1": Goal(-200, 250, 120, 5_000),
    "CartPole-v1": Goal(475, 500, 240, 10_000),
    "Acrobot-v1": Goal(-100, 500, 240, 20_000),
    "MountainCarContinuous-v0": Goal(90, 1_000, 240, 20_000),
    "LunarLander-v3": Goal(200, 2_500, 900, 100_000),
    "dmc/cartpole-swingup": Goal(800, 2_500, 900, 50_000),
    "dmc/walker-walk": Goal(800, 2_500, 900, 50_000),
}
DISCRETE = ("CartPole-v1", "Acrobot-v1", "LunarLander-v3")


def systems(task: str) -> list[str]:
    """Returns what is compared on a task: presets, and algorithms with their defaults and with tuned settings."""
    algorithms = ["ppo", "dqn"] if task in DISCRETE else ["ppo", "sac", "td3"]
    tuned = [f"{algorithm} tuned" for algorithm in algorithms if (algorithm, task) in TUNED]
    return ["mrq small", *algorithms, *tuned]


def command(task: str, system: str, seed: int, folder: Path) -> tuple[list[str], Path]:
    """Returns the command that trains, and the CSV to which it writes evaluations."""
    name, _, settings = system.partition(" ")
    goal = GOALS[task]
    if name != "mrq":
        evaluations = folder / "evaluations.csv"
        given = [task, name, settings or "defaults", str(seed), str(goal.evaluate_every), str(evaluations)]
        return [sys.executable, "-m", "benchmarks.laptop_stable", *given], evaluations
    options = {"seed": seed, "preset": settings, "steps": goal.steps, "evaluate-every": goal.evaluate_every}
    given = [f"--{option}={value}" for option, value in options.items()] + [f"--runs={folder}", "--device=cpu"]
    evaluations = run_path(folder, task, seed) / "evaluations.csv"
    return [sys.executable, "-m", "mrq", "train", task, *given], evaluations


def run(task: str, system: str, seed: int) -> tuple[float, int] | None:
    """Trains until the goal; returns the seconds and steps that it took, or None."""
    goal = GOALS[task]
    with tempfile.TemporaryDirectory() as folder:
        given, evaluations = command(task, system, seed, Path(folder))
        with open(Path(folder) / "output", "w") as output:
            began = time.monotonic()
            environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/compiled"}
            process = subprocess.Popen(given, stdout=output, stderr=output, env=environment)
        try:
            while time.monotonic() - began < goal.seconds:
                for step, value in _evaluations(evaluations):
                    if value >= goal.value:
                        return time.monotonic() - began, step
                if process.poll() is not None:
                    if process.returncode != 0:
                        raise SystemExit(f"{task}, {system}: {(Path(folder) / 'output').read_text()[-2_000:]}")
                    return None  # tuned settings say how long to train
                time.sleep(POLL)
            return None
        finally:
            process.kill()
            process.wait()


def _evaluations(path: Path) -> Iterator[tuple[int, float]]:
    if path.exists():
        for row in csv.DictReader(path.read_text().splitlines(keepends=True)):
            if row.get("seconds"):  # the last column: otherwise the line is still being written
                yield int(row["step"]), float(row["return_mean"])


def table(rows: list[dict[str, str]]) -> str:
    """Returns the median, the fastest and the slowest run by task and system, as Markdown."""
    lines = []
    for task in GOALS:
        for system in systems(task):
            own = [row for row in rows if (row["task"], row["system"]) == (task, system)]
            arrived = [row for row in own if row["seconds"]]
            if own:
                cells = [_range(arrived, len(own), "seconds"), _range(arrived, len(own), "steps")]
                lines.append([task, f"{GOALS[task].value:g}", system, f"{len(arrived)} of {len(own)}", *cells])
    return markdown_table(["task", "return", "system", "arrived", "seconds", "steps"], lines)


def _range(arrived: list[dict[str, str]], count: int, column: str) -> str:
    """Returns median [least, most]; runs that have not arrived are longer than all others."""
    values = sorted(float(row[column]) for row in arrived) + [np.inf] * (count - len(arrived))
    return f"{_number(float(np.median(values)))} [{_number(values[0])}, {_number(values[-1])}]"


def _number(value: float) -> str:
    return "-" if not np.isfinite(value) else f"{value:,.0f}"


def main(
    results: Path, /, tasks: tuple[str, ...] = tuple(GOALS), only: tuple[str, ...] = (), seeds: int = SEEDS
) -> None:
    """Runs what is missing in the results, and prints the table.

    Args:
        results: CSV file with a row per run.
        tasks: Only these tasks.
        only: Only these systems, such as "mrq small" and sac.
        seeds: Runs of each.
    """
    rows: list[dict[str, Any]] = list(csv.DictReader(results.open())) if results.exists() else []
    if not rows:
        results.write_text(",".join(COLUMNS) + "\n")
    known = {(row["task"], row["system"], row["seed"]) for row in rows}
    for seed in range(seeds):
        for task in tasks:
            for system in only or systems(task):
                if system not in systems(task) or (task, system, str(seed)) in known:
                    continue
                reached = run(task, system, seed)
                seconds, steps = ("", "") if reached is None else (f"{reached[0]:.1f}", str(reached[1]))
                row = dict(zip(COLUMNS, (task, system, str(seed), seconds, steps), strict=True))
                rows.append(row)
                with results.open("a", newline="") as file:
                    csv.writer(file).writerow(row.values())
                print(*row.values(), sep=",", flush=True)
    print(table(rows))


if __name__ == "__main__":
    tyro.cli(main)
