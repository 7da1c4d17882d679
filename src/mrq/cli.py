"""The command line: mrq train, evaluate, resume, speed, tasks, doctor, bench, report."""

import errno
import io
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from mrq.benchmark.cluster import Cluster
from mrq.environments.tasks import Suite
from mrq.errors import MRQError
from mrq.terminal import refuse, say, show, started_in
from mrq.training.settings import Settings

if TYPE_CHECKING:
    from mrq.training.run_folder import RunFolder
    from mrq.training.runs import Outcome


@dataclass(frozen=True)
class Train:
    """Train MR.Q on one or more tasks, with the paper's hyperparameters unless told otherwise."""

    tasks: tyro.conf.Positional[tuple[str, ...]]
    """Gymnasium ids, dmc/…, dmc-visual/… or atari/… tasks, or module:factory for your own; several train together."""
    seed: int | None = None
    """Seed of the agent; 0 if none is given."""
    seeds: tuple[int, ...] = ()
    """Several seeds: one agent each and task, trained in one process."""
    runs: Path = Path("runs")
    """Where run folders are made: RUNS/TASK/seed-N."""
    settings: Settings = field(default_factory=Settings)

    def run(self) -> None:
        from mrq.training.runs import agents_of, start

        if self.seed is not None and self.seeds:
            raise MRQError("give either --seed or --seeds.")
        agents = agents_of(self.tasks, self.seeds or (self.seed or 0,))
        conclude(start(agents, self.settings, self.runs, say))


@dataclass(frozen=True)
class Evaluate:
    """Play episodes with a trained agent."""

    run_folder: tyro.conf.Positional[Path]
    """A run folder, such as runs/Pendulum-v1/seed-0."""
    episodes: int = 10
    """Episodes to play."""
    deterministic: bool = False
    """Take the likeliest of discrete actions, rather than sampling as the paper's evaluations do."""
    video: Path | None = None
    """Also film the first episodes, up to 1,000 frames, as .mp4 or .gif."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""

    def run(self) -> None:
        from mrq.training.playing import play

        folder, video = self.run_folder.absolute(), None if self.video is None else self.video.absolute()
        evaluation = play(folder, self.episodes, self.deterministic, video, self.device)
        say(f"return {evaluation}, {evaluation.mean_length:,.0f} steps an episode (episodes: {self.episodes})")
        summarise([folder], video)


@dataclass(frozen=True)
class Resume:
    """Go on with runs where they stopped."""

    run_folders: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders; those that stand at the same step train together."""
    steps: int | None = None
    """Train up to this step instead of the one first asked for."""

    def run(self) -> None:
        from mrq.training.runs import resume

        conclude(resume(self.run_folders, self.steps, say))


@dataclass(frozen=True)
class Speed:
    """Measure how fast training is on this machine, where its time goes, and what bounds it."""

    tasks: tyro.conf.Positional[tuple[str, ...]] = ("Pendulum-v1",)
    """Tasks, as for `mrq train`."""
    agents: tuple[int, ...] = (1,)
    """Sizes of the populations to measure."""
    together: bool = False
    """Measure all tasks in one population, rather than one after the other."""
    markdown: Path | None = None
    """Also write the table to this file."""
    settings: Settings = field(default_factory=Settings)

    def run(self) -> None:
        from mrq.report.writing import write
        from mrq.training.speed import markdown, measure_speed, table

        if not self.tasks or min(self.agents, default=0) < 1:
            raise MRQError("give one task or more, and 1 or more --agents.")
        refuse_outputs([self.markdown])
        fleets = [self.tasks] if self.together else [(task,) for task in self.tasks]
        speeds = []
        try:
            for fleet in fleets:
                for agents in self.agents:
                    say(f"measuring {', '.join(fleet)} with {agents} agent{'s' if agents > 1 else ''} each")
                    speeds.append(measure_speed(fleet, range(agents), self.settings, say))
        finally:  # what was measured before something went wrong is shown too
            if speeds:
                show(table(speeds))
                if self.markdown is not None:
                    write(self.markdown, markdown(speeds, self.settings))


@dataclass(frozen=True)
class Tasks:
    """List the paper's 118 tasks: their sizes, how long they train, and whether this machine can run them."""

    suites: tyro.conf.Positional[tuple[Suite, ...]] = ()
    """Those of these suites alone."""

    def run(self) -> None:
        from mrq.environments.tasks import PROTOCOLS, paper_tasks
        from mrq.training.doctor import obstacles

        in_the_way = dict(obstacles(self.suites or tuple(PROTOCOLS)))
        rows = [["task", "observation", "actions", "steps", "evaluated every", "runs here"]]
        for task in paper_tasks():
            if task.suite in in_the_way:
                actions = f"{task.actions} {'discrete' if task.discrete else 'continuous'}"
                steps, evaluate_every, _ = task.protocol
                runs = "yes" if in_the_way[task.suite] is None else "no"
                rows.append([task.name, task.observation, actions, f"{steps:,}", f"{evaluate_every:,}", runs])
        show(rows)
        for obstacle in filter(None, in_the_way.values()):
            say(obstacle)


@dataclass(frozen=True)
class Doctor:
    """Say what works on this machine, what is missing, and what mends it."""

    def run(self) -> None:
        from mrq.training.doctor import findings

        for what, works, details in findings():  # one by one, since some take a while
            say(f"{'ok     ' if works else 'missing'}  {what:14} {details}")


@dataclass(frozen=True)
class Bench:
    """Run the paper's experiments: what is finished is skipped, what is not is gone on with."""

    suite: tyro.conf.Positional[Suite | Literal["all"]]
    """A suite, or all four."""
    tasks: tuple[str, ...] = ()
    """Some of its tasks alone, such as cheetah-run."""
    algorithm: tuple[str, ...] = ("mrq",)
    """mrq, or baselines under the same protocol: ppo, td3, sac, dqn (Stable-Baselines3's, with its defaults)."""
    seeds: int | None = None
    """How many seeds, from 0 on; by default 10, and 5 for variants, as in the paper."""
    variants: tuple[str, ...] = ()
    """Variants of the design study by name, or all; MR.Q itself, to compare them with, runs too."""
    runs: str = "runs"
    """Where run folders are made: RUNS/TASK/seed-N, and RUNS/VARIANT/TASK/seed-N, or a baseline's name for VARIANT.
    With --engine ray also an address, such as s3://bucket/runs."""
    dry_run: bool = False
    """Only say what there is to do, and what it would cost."""
    engine: Literal["local", "ray"] = "local"
    """This machine, or a Ray cluster."""
    cluster: Cluster = field(default_factory=Cluster)
    settings: Settings = field(default_factory=Settings)

    def run(self) -> None:
        from mrq.benchmark.bench import bench

        if self.engine == "local" and self.cluster != Cluster():
            raise MRQError("--address, --gpus-per-fleet and --cpus-per-fleet are for --engine ray.")

        bench(
            self.suite,
            self.tasks,
            self.algorithm,
            self.seeds,
            self.variants,
            self.runs,
            self.settings,
            self.cluster if self.engine == "ray" else None,
            self.dry_run,
            say,
            show,
        )


@dataclass(frozen=True)
class Report:
    """Lay runs beside the paper's results: tables with intervals, learning curves, the design study."""

    folders: tyro.conf.Positional[tuple[str, ...]] = ("runs",)
    """Where the runs are: folders, or addresses such as s3://bucket/runs."""
    external: tuple[Path, ...] = ()
    """Other programs' results, as CSV with the columns task, seed, step and return; a file a column."""
    html: Path | None = None
    """Write the report here as a page that needs nothing else: with figures, and values under the pointer."""
    markdown: Path | None = None
    """Write the report here as Markdown; it is printed if nothing is to be written."""
    csv: Path | None = None
    """Write the tables' numbers here."""
    figures: Path | None = None
    """Write every figure into this folder, as SVG."""

    def run(self) -> None:
        from mrq.benchmark.storage import at_hand, named_as_at
        from mrq.report.figures import draw, write_figures
        from mrq.report.html import html
        from mrq.report.records import collect
        from mrq.report.report import build
        from mrq.report.text import as_csv, markdown
        from mrq.report.writing import write
        from mrq.training.run_folder import TABLES

        outputs = (self.html, self.markdown, self.csv, self.figures)
        refuse_outputs(outputs, may_be_a_folder=self.figures)
        for path in filter(None, outputs):
            if path.name in TABLES or path.resolve() in [table.resolve() for table in self.external]:
                raise MRQError(f"{path} cannot be written: it holds results that the report is made of.")
        with ExitStack() as stack:
            paths = {stack.enter_context(at_hand(folder)): folder for folder in self.folders}

            def tell(sentence: str) -> None:
                for path, folder in paths.items():
                    sentence = named_as_at(folder, path, sentence)
                say(sentence)

            records = collect(paths, tell, self.external)
        if not records:
            raise MRQError("there are no evaluated runs in the folders given.")
        report = build(records)
        figures = draw(report) if self.html or self.figures else []
        page = partial(html, figures=figures)
        for to, written in ((self.html, page), (self.markdown, markdown), (self.csv, as_csv)):
            if to is not None:
                write(to, written(report))
                say(f"written: {to}")
        if self.figures is not None:
            write_figures(figures, self.figures)
            say(f"written: {self.figures} (figures: {len(figures)})")
        if not any(outputs):
            say(markdown(report))


def refuse_outputs(paths: Sequence[Path | None], may_be_a_folder: Path | None = None) -> None:
    """Before anything is measured or computed for them."""
    for path in filter(None, paths):
        if not path.parent.is_dir():
            raise MRQError(f"{path} cannot be written: there is no folder {path.parent}.")
        if paths.count(path) > 1 or (path.is_dir() and path is not may_be_a_folder):
            raise MRQError(f"{path} cannot be written: it is a folder, or given twice.")


def conclude(outcome: "Outcome") -> None:
    """What came of a training; ends with an error if an agent broke off."""
    from mrq.training.runs import resume_command

    if len(outcome.runs) <= 4:
        summarise([run.path for run in outcome.runs])
    else:
        for run in outcome.runs:
            say(f"{run.path}  {last_evaluation(run) or ''}")
    unfinished = [run for run in outcome.runs if run.unfinished]
    if outcome.interrupted and unfinished:
        say(f"interrupted; go on with: {resume_command(unfinished)}")
    if outcome.failed:
        number, all_of_them = len(outcome.failed), len(outcome.runs)
        go_on = "" if outcome.interrupted else f"; go on from there with: {resume_command(outcome.failed)}"
        raise MRQError(
            f"{number} of {all_of_them} agents broke off, for the reasons given above. What they had learned at their "
            f"last checkpoint is kept{go_on or '.'}"
        )


def summarise(folders: list[Path], video: Path | None = None) -> None:
    """What there is to look at, and how to go on."""
    from mrq.training.run_folder import RunFolder
    from mrq.training.runs import resume_command

    for folder in folders:
        run = RunFolder(folder)
        say(f"run folder      {folder}")
        if evaluation := last_evaluation(run):
            say(f"evaluation      {evaluation}")
        if (folder / "learning_curve.png").exists():
            say(f"learning curve  {folder / 'learning_curve.png'}")
        if video is not None:
            say(f"video           {video}")
        more = "" if run.unfinished else f" --steps {2 * run.settings.total_steps}"
        say(f"go on           {resume_command([run])}{more}")


def last_evaluation(run: "RunFolder") -> str | None:
    rows = run.evaluations()
    return f"return {float(rows[-1]['return_mean']):,.1f} at step {int(rows[-1]['step']):,}" if rows else None


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not know every sign we use
    started_in()  # before anything leaves it
    command = None
    try:
        command = tyro.cli(
            Annotated[Train, tyro.conf.subcommand("train")]
            | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
            | Annotated[Resume, tyro.conf.subcommand("resume")]
            | Annotated[Speed, tyro.conf.subcommand("speed")]
            | Annotated[Tasks, tyro.conf.subcommand("tasks")]
            | Annotated[Doctor, tyro.conf.subcommand("doctor")]
            | Annotated[Bench, tyro.conf.subcommand("bench")]
            | Annotated[Report, tyro.conf.subcommand("report")],
            prog="mrq",
            config=(tyro.conf.OmitArgPrefixes,),
            description="MR.Q: one algorithm, one set of hyperparameters, any Gymnasium environment.",
        )
        command.run()
    except MRQError as error:
        refuse(str(error))
    except BrokenPipeError:
        sys.exit(1)  # whoever read what we print has gone
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        then = ", then use `mrq resume`" if isinstance(command, Train | Resume | Bench) else ""
        refuse(f"no space is left on the disk; make room{then}." if full else f"{error}.")
    except MemoryError as error:
        refuse(f"there is not enough memory ({error}); use smaller networks or batches, or fewer agents.")
    except KeyboardInterrupt:
        checkpoint = " a checkpoint, if one was written, is intact."
        refuse("stopped at once;" + checkpoint if isinstance(command, Train | Resume | Bench) else "stopped.", 130)
