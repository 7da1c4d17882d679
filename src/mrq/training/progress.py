"""What a person sees of a run: a bar on a terminal, plain lines in a log file."""

import time
from collections import deque
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn


class ProgressBar:
    """Steps, steps/s, time left and the last evaluation. `say` prints a line above the bar."""

    def __init__(self, label: str, steps: int, total_steps: int, period: int, shown: bool = True) -> None:
        self.total_steps, self.period = total_steps, period
        self.console = Console(quiet=not shown, highlight=False, soft_wrap=True)
        self._marks: deque[tuple[float, int]] = deque([(time.monotonic(), steps)], maxlen=5)
        self._bar = Progress(
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

    def show(self, steps: int, learning: bool) -> None:
        """Called at every step. Random steps go by fast and say nothing about the time left."""
        if steps % self.period == 0:
            self._marks.append((time.monotonic(), steps))
            left = (self.total_steps - steps) / max(self.steps_per_second, 1e-9)
            pace = f"{self.steps_per_second:,.1f} steps/s, {_duration(left)} left" if learning else "random steps"
            self._bar.update(self._task, completed=steps, pace=pace)
        elif steps % 10 == 0:
            self._bar.update(self._task, completed=steps)

    def show_evaluation(self, mean_return: float) -> None:
        self._bar.update(self._task, evaluation=f"return {mean_return:,.1f}")

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


def _duration(seconds: float) -> str:
    if seconds > 359_999_999:
        return "-"
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"
