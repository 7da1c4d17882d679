"""What a person sees of a matrix in training: a table of all its runs on a terminal, plain lines in a log file."""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Self

from rich.live import Live
from rich.table import Table

from mrq.benchmark.matrix import Job, RunState
from mrq.benchmark.progress import Progress
from mrq.terminal import Terminal
from mrq.training.pace import duration

OTHER_LINES = 7  # of a terminal: the table's frame, its title and the line below it


class Stage(IntEnum):
    """What a run is doing; the table sorts its rows in this order."""

    TRAINING = 0
    FAILED = 1
    WAITING = 2
    FINISHED = 3


class View:
    """Shows every run's stage, step, speed and last return."""

    def __init__(self, states: Mapping[Job, RunState]) -> None:
        stages = {RunState.FINISHED: Stage.FINISHED, RunState.UNUSABLE: Stage.FAILED}
        self._stages = {job: stages.get(state, Stage.WAITING) for job, state in states.items()}
        self._progress: dict[Job, Progress] = {}
        self.console = Terminal()
        self._live = Live(console=self.console, get_renderable=self.table, refresh_per_second=4)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self._live.stop()

    def show(self, fleet: Sequence[Job], progress: Progress) -> None:
        """Shows how far a fleet is."""
        for job in fleet:
            value, before = progress.returns.get(job.identity), self._progress.get(job)
            if value is not None and (before is None or before.evaluated_at != progress.evaluated_at):
                self._print(f"{job.name}: return {value:,.1f} at step {progress.evaluated_at:,}")
            self._stages[job], self._progress[job] = Stage.TRAINING, progress

    def end(self, fleet: Sequence[Job], failed: Mapping[Job, str]) -> None:
        """Shows that a fleet has ended, and why runs of it failed."""
        for job in fleet:
            self._stages[job] = Stage.FAILED if job in failed else Stage.FINISHED
            self._print(f"{job.name}: failed, {failed[job]}" if job in failed else f"{job.name}: finished")

    def table(self) -> Table:
        """Returns a table of as many runs as the terminal has lines for."""
        counts = Counter(self._stages.values())
        title = ", ".join(f"{counts[stage]:,} {stage.name.lower()}" for stage in Stage if counts[stage])
        table = Table("run", "state", "step", "steps/s", "last return", "time left", title=title)
        jobs = sorted(self._stages, key=lambda job: self._stages[job])  # runs in the same stage keep their order
        room = max(1, self.console.height - OTHER_LINES)
        for job in jobs[:room]:
            table.add_row(job.name, self._stages[job].name.lower(), *self._cells(job))
        if len(jobs) > room:
            table.caption = f"and {len(jobs) - room:,} more"
        return table

    def _cells(self, job: Job) -> list[str]:
        """Returns a run's step, steps/s, last return and time left."""
        total, progress = job.settings.total_steps, self._progress.get(job)
        finished, training = (self._stages[job] is stage for stage in (Stage.FINISHED, Stage.TRAINING))
        if progress is None:
            return [f"{total:,}" if finished else f"of {total:,}", "", "", ""]
        speed, value = progress.steps_per_second, progress.returns.get(job.identity)
        return [
            f"{total:,}" if finished else f"{progress.steps:,} of {total:,}",
            f"{speed:,.1f}" if speed and training else "",
            "" if value is None else f"{value:,.1f}",
            duration((total - progress.steps) / speed) if speed and training else "",
        ]

    def _print(self, line: str) -> None:
        if not self.console.is_terminal:
            self.console.print(line)
