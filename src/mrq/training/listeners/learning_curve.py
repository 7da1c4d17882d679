"""learning_curve.png: a run's learning curve as a picture."""

from collections.abc import Sequence

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mrq.files import written_aside
from mrq.printable import printable
from mrq.training.listeners.listener import Listener
from mrq.training.run_folder import CURVE, RunFolder


class LearningCurve(Listener):
    """Draws the curve of an agent's run whenever a checkpoint of it is written."""

    def __init__(self, runs: Sequence[RunFolder]) -> None:
        self._runs = runs

    def checkpoint(self, steps: int, agent: int) -> None:
        draw_learning_curve(self._runs[agent])


def draw_learning_curve(run: RunFolder) -> None:
    """Draws evaluation returns against environment steps, their spread over episodes, and when learning began."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # matplotlib has read the matplotlibrc of the current folder, which can start LaTeX
        _draw(run)


def _draw(run: RunFolder) -> None:
    rows = run.evaluations()
    steps = [int(row["step"]) for row in rows]
    means = [float(row["return_mean"]) for row in rows]
    spreads = [float(row["return_std"]) for row in rows]
    figure = Figure(figsize=(7, 4), dpi=120, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    low, high = ([m + sign * s for m, s in zip(means, spreads, strict=True)] for sign in (-1, 1))
    axes.fill_between(steps, low, high, alpha=0.2, linewidth=0, label="standard deviation over episodes")
    axes.plot(steps, means, marker="o", markersize=3, label="mean evaluation return")
    random_steps = run.settings.hyperparameters.random_steps
    if random_steps and steps and steps[-1] > random_steps:
        axes.axvline(random_steps, color="grey", linestyle=":", label="learning begins")
    axes.set_xlabel("environment steps")
    axes.set_ylabel("return")
    axes.set_title(printable(f"{run.task}, seed {run.seed}"), parse_math=False)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    with written_aside(run.path / CURVE) as file:
        canvas.print_png(file)  # type: ignore[no-untyped-call]
