"""What a person sees of a training: a bar on a terminal, plain lines in a log file."""

from collections.abc import Mapping
from statistics import fmean

from rich import progress
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, SpinnerColumn, TextColumn
from rich.table import Column

from mrq.interface import Array
from mrq.terminal import Terminal
from mrq.training.evaluation import Evaluation
from mrq.training.listeners.listener import Listener, Training
from mrq.training.pace import duration

EVERY = 10  # steps between two updates of the bar


class Name(ProgressColumn):
    """What trains, as a string that the terminal makes printable; rich's own column would look for styles in it."""

    def render(self, task: progress.Task) -> str:
        return task.description


class ProgressBar(Listener):
    """Shows steps, steps/s, time left and the last evaluation, and prints lines above the bar."""

    def __init__(self) -> None:
        self._console = Terminal()
        self._bar = progress.Progress(
            SpinnerColumn(),
            Name(Column(no_wrap=True)),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[pace]}"),
            TextColumn("{task.fields[evaluation]}"),
            console=self._console,
        )

    def training_begins(self, training: Training) -> None:
        self._training, self._pace = training, 0.0
        names = [identity.name for identity in training.identities]
        label = ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more"
        steps, total = training.steps, training.total_steps
        self._task = self._bar.add_task(label, total=total, completed=steps, pace="", evaluation="")
        if self._console.is_terminal:
            self._bar.start()

    def step(self, steps: int, steps_per_second: float) -> None:
        self._pace = steps_per_second
        if steps % EVERY:
            return
        left = (self._training.total_steps - steps) / max(steps_per_second, 1e-9)
        # Random steps are fast and say nothing about the time left.
        learning = steps > self._training.random_steps
        pace = f"{steps_per_second:,.1f} steps/s, {duration(left)} left" if learning else "random steps"
        self._bar.update(self._task, completed=steps, pace=pace)

    def evaluation(self, steps: int, evaluations: Mapping[int, Evaluation], seconds: Array) -> None:
        returns = [evaluation.mean for evaluation in evaluations.values()]
        self._bar.update(self._task, evaluation=f"return {fmean(returns):,.1f}" if returns else "")
        texts: dict[str, list[str]] = {}  # by task
        for agent, evaluation in evaluations.items():
            task, seed = self._training.identities[agent]
            texts.setdefault(task, []).append(f"{evaluation} (seed {seed})")
        known = steps > self._training.random_steps and self._pace > 0
        speed = f", {self._pace:,.1f} steps/s" if known else ""
        for task, of_task in texts.items():
            name = f"{task}: " if len(texts) > 1 else ""
            self.message(f"step {steps:,}: {name}return {', '.join(of_task)}{speed}")

    def message(self, text: str) -> None:
        self._console.print(text)

    def training_ends(self, steps: int) -> None:
        if self._console.is_terminal:
            self._bar.stop()
