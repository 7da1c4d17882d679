"""What a person sees of a matrix: a table of the fleet in training, or plain lines in a log file."""

from collections.abc import Sequence
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from mrq.benchmark.matrix import Job
from mrq.training.progress import Progress

MOST_ROWS = 40  # of a fleet; the others do the same


class View:
    def __init__(self, total: int, done: int) -> None:
        self.total, self.done = total, done
        self._fleet: Sequence[Job] = ()  # the one in training
        self.console = Console(highlight=False, soft_wrap=True)
        self._live = Live(console=self.console, refresh_per_second=4)
        self._returns: dict[str, float] = {}

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self._live.stop()

    def show(self, fleet: Sequence[Job], progress: Progress) -> None:
        if fleet is not self._fleet:
            self.done += len(self._fleet)
            self._fleet = fleet
        if self.console.is_terminal:
            self._live.update(self._table(fleet, progress))
        for job in fleet:
            value = progress.returns.get(job.agent)
            if value is not None and self._returns.get(job.name) != value:
                self._returns[job.name] = value
                if not self.console.is_terminal:
                    self.console.print(f"{job.name}: return {value:,.1f} by step {progress.steps:,}", markup=False)

    def _table(self, fleet: Sequence[Job], progress: Progress) -> Table:
        table = Table("run", "step", "steps/s", "last return", "time left", title=f"{self.done} of {self.total} done")
        for job in fleet[:MOST_ROWS]:
            left = job.settings.total_steps - progress.steps
            speed = progress.steps_per_second
            value = progress.returns.get(job.agent)
            table.add_row(
                job.name,
                f"{progress.steps:,} of {job.settings.total_steps:,}",
                f"{speed:,.1f}" if speed else "",
                "" if value is None else f"{value:,.1f}",
                duration(left / speed) if speed else "",
            )
        if len(fleet) > MOST_ROWS:
            table.add_row(f"and {len(fleet) - MOST_ROWS} more")
        return table


def duration(seconds: float) -> str:
    minutes, _ = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes:02d} min"
