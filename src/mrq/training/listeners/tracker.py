"""A tracker: another program's record of runs, such as W&B. This is what all of them have in common."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Protocol

from mrq.errors import MRQError, one_line
from mrq.files import is_folder
from mrq.interface import Array, Say
from mrq.training.checkpoint import latest_checkpoint
from mrq.training.evaluation import Evaluation
from mrq.training.listeners.listener import Training
from mrq.training.listeners.values import Values
from mrq.training.run_folder import FILMS, RunFolder
from mrq.training.tracking_file import Tracked, read_tracking, write_tracking

FORMATS = (".mp4", ".gif")  # of films
Rows = Mapping[int, Mapping[str, float]]  # values by step and name


class TrackerRun(Protocol):
    """One agent's run in a tracker. Any of its methods may raise anything."""

    id: str  # by which the tracker finds it again
    place: str  # where the user finds it
    keeps: bool  # what it is told, if this process is killed; otherwise it is told again

    def log(self, rows: Rows) -> None:
        """Adds values."""

    def film(self, steps: int, path: Path) -> None:
        """Adds a film."""

    def checkpoint(self, steps: int, name: str) -> None:
        """Notes the name of the latest checkpoint."""

    def end(self, complete: bool) -> None:
        """Ends it; an incomplete one may be continued later."""


@dataclass
class _Agent:
    """What is known of one agent's run."""

    run: TrackerRun
    tracked: Tracked
    films: set[Path]  # that there were before, or were sent
    rows: dict[int, dict[str, list[float]]] = field(default_factory=dict)  # to be sent; episodes may end together


class Tracker(Values):
    """Tells a tracker of every agent's run. If it fails, training continues without it.

    A resumed training continues the same runs, and leaves out what they were told before it was interrupted.
    """

    def __init__(
        self, name: str, begin: Callable[[RunFolder, str | None], TrackerRun], runs: Sequence[RunFolder], say: Say
    ) -> None:
        self._name, self._begin, self._runs, self._say = name, begin, runs, say
        self._agents: dict[int, _Agent] = {}

    def training_begins(self, training: Training) -> None:
        self._total_steps = training.total_steps
        with self._surviving():
            for agent, run in enumerate(self._runs):
                known = read_tracking(run.path).get(self._name)
                begun = self._begin(run, None if known is None else known.run)
                tracked = Tracked(begun.id, known.told if known is not None and begun.keeps else {})
                self._agents[agent] = _Agent(begun, tracked, _films(run))
                write_tracking(run.path, self._name, tracked)
                verb = "begins" if known is None else "continues"
                self._say(f"{run.identity.name}: {self._name} {verb} {begun.place}")

    def record(self, agent: int, steps: int, values: Mapping[str, float]) -> None:
        if agent not in self._agents:
            return
        known = self._agents[agent]
        for name, value in values.items():
            if steps > known.tracked.told.get(_kind(name), -1):
                known.rows.setdefault(steps, {}).setdefault(name, []).append(value)

    def metrics(self, steps: int, metrics: Mapping[int, Mapping[str, float]], steps_per_second: float) -> None:
        super().metrics(steps, metrics, steps_per_second)
        self._send()

    def evaluation(self, steps: int, evaluations: Mapping[int, Evaluation], seconds: Array) -> None:
        super().evaluation(steps, evaluations, seconds)
        self._send()

    def checkpoint(self, steps: int, agent: int) -> None:
        self._send()
        latest = latest_checkpoint(self._runs[agent].checkpoints)
        if agent in self._agents and latest is not None:
            with self._surviving():
                self._agents[agent].run.checkpoint(steps, latest.name)

    def agent_fails(self, agent: int, fault: MRQError) -> None:
        self._send()
        if agent in self._agents:
            with self._surviving():
                self._agents.pop(agent).run.end(complete=False)

    def training_ends(self, steps: int) -> None:
        self._send()
        with self._surviving():
            for known in self._agents.values():
                known.run.end(complete=steps >= self._total_steps)
        self._agents.clear()

    def _send(self) -> None:
        """Sends what was recorded, and new films."""
        with self._surviving():
            for agent, known in self._agents.items():
                rows, known.rows = known.rows, {}
                if rows:
                    known.run.log({at: {name: fmean(each) for name, each in row.items()} for at, row in rows.items()})
                    for at, row in rows.items():
                        known.tracked.told |= {_kind(name): at for name in row}
                    write_tracking(self._runs[agent].path, self._name, known.tracked)
                for film in sorted(_films(self._runs[agent]) - known.films):
                    known.run.film(max(known.tracked.told.values(), default=0), film)
                    known.films.add(film)

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        """Lets training continue without the tracker if anything fails."""
        try:
            yield
        except Exception as error:
            self._agents.clear()
            self._say(f"{self._name} failed, and training continues without it: {one_line(error)}")


def _kind(name: str) -> str:
    return name.partition("/")[0]


def _films(run: RunFolder) -> set[Path]:
    """Returns a run's films, without those that are still being written, and without links."""
    folder = run.path / FILMS
    found = folder.glob("[!.]*") if is_folder(folder) else ()
    return {path for path in found if path.suffix in FORMATS and path.is_file() and not path.is_symlink()}
