"""What a person sees of a run: a bar on a terminal, plain lines in a log file."""

import time
from collections import deque
from collections.abc import Callable
from statistics import fmean
from typing import NamedTuple, Self

from rich import progress
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn

from mrq.interface import Agent
from mrq.terminal import Lines


class Progress(NamedTuple):
    steps: int
    steps_per_second: float  # of each agent; 0 while unknown
    returns: dict[Agent, float]  # the latest evaluations
    evaluated_at: int | None  # the step of these


Watch = Callable[[Progress | str], None]  # told of progress, and of what would be said


class ProgressBar:
    """Steps, steps/s, time left and the last evaluation. `say` prints a line above the bar.

    With `watch` nothing is shown here: it is told instead.
    """

    def __init__(
        self, label: str, steps: int, total_steps: int, period: int, shown: bool = True, watch: Watch | None = None
    ) -> None:
        self.total_steps, self.period = total_steps, period
        self._watch, self._returns = watch, dict[Agent, float]()
        self._evaluated_at: int | None = None
        self.console = Lines(quiet=not shown or watch is not None)
        self._marks: deque[tuple[float, int]] = deque([(time.monotonic(), steps)], maxlen=5)
        self._bar = progress.Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[pace]}"),
            TextColumn("{task.fields[evaluation]}"),
            console=self.console,
        )
        self._task = self._bar.add_task(label, total=total_steps, completed=steps, pace="", evaluation="")

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self._bar.stop()

    def say(self, line: str) -> None:
        self.console.print(line, markup=False)
        if self._watch is not None:
            self._watch(line)

    def show(self, steps: int, learning: bool) -> None:
        """Called at every step. Random steps go by fast and say nothing about the time left."""
        if steps % self.period == 0:
            self._marks.append((time.monotonic(), steps))
            left = (self.total_steps - steps) / max(self.steps_per_second, 1e-9)
            shown = f"{self.steps_per_second:,.1f} steps/s, {duration(left)} left" if learning else "random steps"
            self._bar.update(self._task, completed=steps, pace=shown)
            if self._watch is not None:
                pace = self.steps_per_second if learning else 0.0
                self._watch(Progress(steps, pace, self._returns, self._evaluated_at))
        elif steps % 10 == 0:
            self._bar.update(self._task, completed=steps)

    def show_evaluation(self, steps: int, returns: dict[Agent, float]) -> None:
        self._returns, self._evaluated_at = returns, steps
        self._bar.update(self._task, evaluation=f"return {fmean(returns.values()):,.1f}" if returns else "")
        if self._watch is not None:
            self._watch(Progress(steps, self.steps_per_second, returns, steps))

    def restart_clock(self, steps: int) -> None:
        """Measures the pace from here on, as when training begins."""
        self._marks.clear()
        self._marks.append((time.monotonic(), steps))

    def leave_out(self, seconds: float) -> None:
        """Does not count time that was spent on something else, such as an evaluation."""
        self._marks = deque([(then + seconds, steps) for then, steps in self._marks], maxlen=self._marks.maxlen)

    @property
    def steps_per_second(self) -> float:
        """Of each agent, over the last few whole target periods, whose updates come in bursts; 0 while unknown."""
        (then, earlier), (now, steps) = self._marks[0], self._marks[-1]
        return (steps - earlier) / (now - then) if now > then else 0.0


def duration(seconds: float) -> str:
    if seconds > 359_999_999:
        return "-"
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,}:{minutes:02d}:{seconds:02d}"
