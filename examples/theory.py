"""Checks the paper's three theorems on random finite processes, prints the results, and draws them if given a file."""

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from matplotlib import pyplot as plt
from rich.console import Console

from mrq import theory

STATES, ACTIONS, DISCOUNT = 20, 4, 0.9
PROCESSES = 300
COLOURS = ("#0072b2", "#d55e00", "#8a8a8a")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figure", type=Path, nargs="?", help="the file to draw to, such as theory.png or theory.svg")
    file = parser.parse_args().figure
    if file is not None and not file.parent.is_dir():
        parser.error(f"there is no folder {file.parent}")
    rng, say = np.random.default_rng(0), Console(highlight=False).print
    figure, (first, second, third) = plt.subplots(1, 3, figsize=(13, 3.9), layout="constrained")
    say(f"Random processes of {STATES} states and {ACTIONS} actions, discount {DISCOUNT}.\n")

    difference = one_solution(rng, first)
    say("[bold]1. Model-free and model-based values are equal.[/]")
    say(f"   TD's fixed point and the linear model's solution differ by at most {difference:.0e}.\n")

    errors, bounds = bounded_errors(rng, second)
    say("[bold]2. The model's errors bound the value error.[/]")
    say(f"   In {PROCESSES} processes the error exceeds its bound {int((errors > bounds).sum())} times.")
    tightness = errors / bounds
    say(f"   Its median is {np.median(tightness):.0%} of the bound, its maximum {tightness.max():.0%}.\n")

    same, broken = merged_values(rng, third)
    say("[bold]3. Features that form a homomorphism determine the optimal values.[/]")
    say(f"   The error of the optimal values of {4 * STATES} states is at most {same:.0e}.")
    say(f"   If merged states have different rewards, it is {broken:.2f}.")

    if file is not None:
        figure.savefig(file, dpi=150)
        say(f"\nwritten: {file}")


def one_solution(rng: np.random.Generator, axes: plt.Axes) -> float:
    """Draws how both methods approach the values, and returns the largest difference of their solutions."""
    process, policy, features = random_problem(rng, 10)
    weights = theory.visit_frequencies(process, policy)
    problem = (process, policy, features, weights)
    model = theory.fitted_model(*problem)
    model_free, model_based = theory.td_fixed_point(*problem), theory.model_solution(model, DISCOUNT)
    rate = 1 / np.linalg.eigvalsh((features.T * weights) @ features).max()
    learned = [np.zeros_like(model_free)]
    for _ in range(200):
        learned.append(theory.td_step(*problem, learned[-1], rate))
    planned = [theory.unrolled(model, DISCOUNT, steps) for steps in range(201)]
    for name, path, colour in (("TD updates", learned, COLOURS[0]), ("model's horizon", planned, COLOURS[1])):
        distances = np.abs((np.array(path) - model_based) @ features.T).max(-1)
        axes.semilogy(distances, label=name, color=colour)
    axes.set(
        title="1. Two methods, the same values", xlabel="updates, or steps ahead", ylabel="largest remaining difference"
    )
    axes.legend(frameon=False)
    return float(np.abs(features @ (model_free - model_based)).max())


def bounded_errors(rng: np.random.Generator, axes: plt.Axes) -> tuple[np.ndarray, np.ndarray]:
    """Draws and returns the largest value errors and their bounds, for 2 to almost as many features as pairs."""
    found = []
    for count in rng.integers(2, STATES * ACTIONS, size=PROCESSES):
        process, policy, features = random_problem(rng, count)
        model = theory.fitted_model(process, policy, features, theory.visit_frequencies(process, policy))
        approximate = features @ theory.model_solution(model, DISCOUNT)
        error = np.abs(approximate - theory.values(process, policy).ravel()).max()
        found.append((count, error, theory.error_bound(process, policy, features, model)))
    counts, errors, bounds = np.array(found).T
    points = axes.scatter(bounds, errors, c=counts, s=9, cmap="viridis")
    plt.colorbar(points, ax=axes, label="features")
    ends = [min(errors), max(bounds)]
    axes.plot(ends, ends, color=COLOURS[2], linewidth=1)
    axes.set(
        title="2. No error exceeds its bound", xlabel="bound", ylabel="largest value error", xscale="log", yscale="log"
    )
    return errors, bounds


def merged_values(rng: np.random.Generator, axes: plt.Axes) -> tuple[float, float]:
    """Draws optimal values against those of the small process, with equal copies and with different rewards.

    Returns the largest difference of each.
    """
    small = theory.random_process(rng, STATES, ACTIONS, DISCOUNT)
    large, kinds = theory.with_copies(rng, small, 4)
    from_features = theory.optimal_values(small)[kinds]
    broken = large._replace(rewards=large.rewards + rng.normal(scale=0.3, size=large.rewards.shape))
    differences = []
    for process, colour, label in ((broken, COLOURS[1], "different rewards"), (large, COLOURS[0], "homomorphism")):
        best = theory.optimal_values(process)
        axes.scatter(from_features, best, s=9, color=colour, label=label)
        differences.append(float(np.abs(from_features - best).max()))
    axes.set(title="3. Optimal values of merged states", xlabel="from the features", ylabel="exact")
    axes.legend(frameon=False)
    return differences[1], differences[0]


def random_problem(rng: np.random.Generator, count: int) -> tuple[theory.Process, np.ndarray, np.ndarray]:
    """Returns a random process, a policy, and `count` random features."""
    process = theory.random_process(rng, STATES, ACTIONS, DISCOUNT)
    return process, theory.random_policy(rng, STATES, ACTIONS), rng.normal(size=(STATES * ACTIONS, count))


if __name__ == "__main__":
    main()
