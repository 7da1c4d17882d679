"""The command line: mrq train, evaluate, export, resume, speed, tasks, presets, doctor, bench, report."""

import errno
import io
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from mrq.algorithms.algorithm import DEFAULT_PRESET
from mrq.algorithms.registry import ALGORITHMS, DEFAULT, algorithm_named
from mrq.benchmark.cluster import Cluster
from mrq.bounds import MOST_AGENTS, Between, option
from mrq.environments.options import EnvironmentOptions
from mrq.environments.tasks import Suite
from mrq.errors import MRQError
from mrq.files import is_address
from mrq.terminal import interrupted_by, refuse, say, show, started_in
from mrq.training.settings import Settings, TrackerName

Name = Annotated[str, tyro.conf.arg(help=f"{', '.join(ALGORITHMS)}; its hyperparameters are options too.")]
PresetName = Annotated[
    str, tyro.conf.arg(help="Set of hyperparameters, which single options may change; `mrq presets` lists them.")
]


@dataclass(frozen=True)
class Train:
    """Train agents on one or more tasks, with MR.Q and the paper's hyperparameters unless told otherwise."""

    tasks: tyro.conf.Positional[tuple[str, ...]]
    """Gymnasium ids, dmc/…, dmc-visual/… or atari/… tasks, or module:factory for your own; several train together."""
    seed: int | None = None
    """Seed of the agent; 0 if none is given."""
    seeds: tuple[int, ...] = ()
    """Several seeds: one agent per seed and task, trained in one process."""
    algorithm: Name = DEFAULT
    preset: PresetName = DEFAULT_PRESET
    runs: str = "runs"
    """Where run folders are made: RUNS/TASK/seed-N."""
    settings: Settings = field(default_factory=Settings)

    def run(self) -> None:
        from mrq.training.listeners.progress_bar import ProgressBar
        from mrq.training.runs import identities_of, runs_folder, start
        from mrq.training.summary import conclude

        if self.seed is not None and self.seeds:
            raise MRQError("give either --seed or --seeds.")
        identities = identities_of(self.tasks, self.seeds or (self.seed or 0,))
        conclude(start(identities, self.settings.with_files_read(), runs_folder(self.runs), ProgressBar()))


@dataclass(frozen=True)
class Evaluate:
    """Play episodes with a trained agent."""

    run_folder: tyro.conf.Positional[Path]
    """A run folder, such as runs/Pendulum-v1/seed-0."""
    episodes: int = 10
    """Episodes to play."""
    deterministic: bool = False
    """Take the most likely discrete action, rather than sampling as the paper's evaluations do."""
    video: Path | None = None
    """Also film the first episodes, up to 1,000 frames, as .mp4 or .gif."""
    best: bool = False
    """Play with the policy of the best evaluation, rather than the latest one."""
    beside_untrained: bool = False
    """Show the untrained agent in the video too, on the left, in the same episodes."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps."""
    trust: bool = False
    """The run folder may bring code that is run: a module that its environment names, and pickled files."""
    env: str | None = None
    """Play in this environment, such as my_module:make, rather than in the one that the run folder names."""

    def run(self) -> None:
        from mrq.training.playing import play
        from mrq.training.run_folder import RunFolder
        from mrq.training.summary import summarise

        refuse_outputs([self.video])
        folder, video = self.run_folder.absolute(), None if self.video is None else self.video.absolute()
        evaluation = play(
            folder,
            self.episodes,
            self.deterministic,
            video,
            self.device,
            say,
            trust=self.trust,
            environment=self.env,
            best=self.best,
            beside_untrained=self.beside_untrained,
        )
        say(f"return {evaluation}, {evaluation.mean_length:,.0f} steps per episode (episodes: {self.episodes})")
        in_its_own = not RunFolder(folder, self.env).replaced
        summarise([RunFolder(folder)], video, evaluated=in_its_own)


@dataclass(frozen=True)
class Export:
    """Write a trained policy as a file that needs no mrq, or as a folder for a model hub."""

    run_folder: tyro.conf.Positional[Path]
    """A run folder, such as runs/Pendulum-v1/seed-0."""
    file: tyro.conf.Positional[Path | None] = None
    """The file to write: .onnx, or .pt2 of PyTorch."""
    sample: bool = False
    """Draw discrete actions with noise that is an input, rather than take the most likely one."""
    best: bool = False
    """The policy of the best evaluation, rather than the latest one."""
    hub: Path | None = None
    """Write what a model hub shows to this new folder: a card with returns, the policy, a film and run.json."""
    trust: bool = False
    """The run folder may bring code that is run: pickled files, and for --hub a module that its environment names."""
    env: str | None = None
    """With --hub, play in this environment, such as my_module:make, rather than in the one that the run names."""

    def run(self) -> None:
        from mrq.hub import write_hub_folder
        from mrq.memory import readable
        from mrq.policy import load_policy

        if (self.file is None) == (self.hub is None):
            raise MRQError("give either a file, such as policy.onnx, or --hub FOLDER.")
        if self.hub is None and self.env is not None:
            raise MRQError("--env is for --hub: a file is written without an environment.")
        if self.hub is not None and self.sample:
            raise MRQError("--sample is for a file; leave it out with --hub.")
        refuse_outputs([self.file, self.hub], may_be_a_folder=self.hub)
        folder = self.run_folder.absolute()
        if self.file is not None:
            file = self.file.absolute()
            load_policy(folder, device="cpu", trust=self.trust, best=self.best).export(file, self.sample)
            say(f"written: {self.file} ({readable(file.stat().st_size)})")
        if self.hub is not None:
            write_hub_folder(folder, self.hub.absolute(), say, self.trust, self.env, self.best)
            say(f"written: {self.hub}")
            say(f"to upload it:  hf upload USER/NAME {shlex.quote(str(self.hub))}  (pip install huggingface_hub)")


@dataclass(frozen=True)
class Resume:
    """Resume runs where they stopped."""

    run_folders: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders; those that stand at the same step train together."""
    steps: int | None = None
    """Train up to this step instead of the one first asked for."""
    stop_at_return: float | None = None
    """Another --stop-at-return than the runs had; inf for none."""
    patience: int | None = None
    """Another --patience than the runs had; 0 for none."""
    trust: bool = False
    """The run folders may bring code that is run: modules that their environments name, and pickled files."""
    env: str | None = None
    """Train in this environment, such as my_module:make, rather than in the one that the run folders name."""
    track: tuple[TrackerName, ...] | None = None
    """Trackers that are told of the training, instead of those that the run folders name."""

    def run(self) -> None:
        from mrq.training.listeners.progress_bar import ProgressBar
        from mrq.training.runs import resume
        from mrq.training.summary import conclude

        changes: dict[str, Any] = {}
        if self.stop_at_return is not None:
            changes["stop_at_return"] = None if self.stop_at_return == inf else self.stop_at_return
        if self.patience is not None:
            changes["patience"] = self.patience
        shown = ProgressBar()
        conclude(resume(self.run_folders, self.steps, shown, None, self.trust, self.env, self.track, changes))


@dataclass(frozen=True)
class Speed:
    """Measure how fast training is on this machine, where its time goes, and what bounds it."""

    tasks: tyro.conf.Positional[tuple[str, ...]] = ("Pendulum-v1",)
    """Tasks, as for `mrq train`."""
    agents: tuple[int, ...] = (1,)
    """Sizes of the populations to measure."""
    together: bool = False
    """Measure all tasks in one population, rather than one after the other."""
    algorithm: Name = DEFAULT
    preset: PresetName = DEFAULT_PRESET
    markdown: Path | None = None
    """Also write the table to this file."""
    settings: Settings = field(default_factory=Settings)

    def run(self) -> None:
        from mrq.report.writing import write
        from mrq.training.speed import markdown, measure_speed, table

        if not self.tasks or min(self.agents, default=0) < 1:
            raise MRQError("give one task or more, and 1 or more --agents.")
        Between(1, MOST_AGENTS).check(max(self.agents), "--agents")
        refuse_outputs([self.markdown])
        settings = self.settings.with_files_read()
        fleets = [self.tasks] if self.together else [(task,) for task in self.tasks]
        speeds = []
        try:
            for fleet in fleets:
                for agents in self.agents:
                    say(f"measuring {', '.join(fleet)} with {agents} agent{'s' if agents > 1 else ''} each")
                    speeds.append(measure_speed(fleet, range(agents), settings, say))
        finally:  # also shows what was measured before something failed
            if speeds:
                show(table(speeds))
                if self.markdown is not None:
                    write(self.markdown, markdown(speeds, self.settings))


@dataclass(frozen=True)
class Tasks:
    """List the paper's 118 tasks: their sizes, how long they train, and whether this machine can run them."""

    suites: tyro.conf.Positional[tuple[Suite, ...]] = ()
    """Only the tasks of these suites."""

    def run(self) -> None:
        from mrq.environments.tasks import PROTOCOLS, paper_tasks
        from mrq.training.doctor import obstacles

        missing = dict(obstacles(self.suites or tuple(PROTOCOLS)))
        rows = [["task", "observation", "actions", "steps", "evaluated every", "runs here"]]
        for task in paper_tasks():
            if task.suite in missing:
                actions = f"{task.actions} {'discrete' if task.discrete else 'continuous'}"
                steps, evaluate_every, _ = task.protocol
                runs = "yes" if missing[task.suite] is None else "no"
                rows.append([task.name, task.observation, actions, f"{steps:,}", f"{evaluate_every:,}", runs])
        show(rows)
        for obstacle in filter(None, missing.values()):
            say(obstacle)


@dataclass(frozen=True)
class Presets:
    """List the presets of every algorithm: sets of hyperparameters, each for all tasks."""

    def run(self) -> None:
        for name in ALGORITHMS:
            algorithm = algorithm_named(name)
            plain = algorithm.hyperparameters()
            for preset, described in algorithm.presets.items():
                say(f"--algorithm {name} --preset {preset}: {described.purpose}")
                for changed, value in described.changes.items():
                    say(f"    {option(changed)} {value}  ({DEFAULT_PRESET}: {getattr(plain, changed)})")


@dataclass(frozen=True)
class Doctor:
    """Say what works on this machine, what is missing, and how to fix it."""

    def run(self) -> None:
        from mrq.training.doctor import findings

        for what, works, details in findings():  # one by one, since some take a while
            say(f"{'ok     ' if works else 'missing'}  {what:14} {details}")


@dataclass(frozen=True)
class Bench:
    """Run the paper's experiments. Finished runs are skipped; unfinished runs are resumed."""

    suite: tyro.conf.Positional[Suite | Literal["all"]]
    """A suite, or all four."""
    tasks: tuple[str, ...] = ()
    """Only some of its tasks, such as cheetah-run."""
    algorithm: tuple[str, ...] = (DEFAULT,)
    """One or more algorithms, as for `mrq train`; preset and hyperparameters are those of the first one."""
    preset: PresetName = DEFAULT_PRESET
    seeds: int | None = None
    """How many seeds, from 0 on; by default 10, and 5 for variants, as in the paper."""
    variants: tuple[str, ...] = ()
    """Variants of the design study by name, or all; the unchanged algorithm runs too, for comparison."""
    runs: str = "runs"
    """Where run folders are made: RUNS/TASK/seed-N for MR.Q, RUNS/NAME/TASK/seed-N for the others.
    With --engine ray this may also be an address, such as s3://bucket/runs."""
    dry_run: bool = False
    """Only say what there is to do, and what it would cost."""
    trust: bool = False
    """Also resume unfinished runs of Stable-Baselines3's algorithms, whose pickled files may run code."""
    engine: Literal["local", "ray"] = "local"
    """This machine, or a Ray cluster."""
    cluster: Cluster = field(default_factory=Cluster)
    settings: Settings = field(default_factory=Settings)

    def run(self) -> None:
        from mrq.benchmark.bench import Request, bench

        if self.settings.environment != EnvironmentOptions():
            raise MRQError("`mrq bench` runs the paper's tasks as they are; use `mrq train` for other environments.")
        if self.settings.stop_at_return is not None or self.settings.patience:
            raise MRQError("`mrq bench` trains to the end: leave out --stop-at-return and --patience.")
        if self.engine == "local" and self.cluster != Cluster():
            raise MRQError("--address, --gpus-per-fleet and --cpus-per-fleet are for --engine ray.")
        request = Request(
            suite=self.suite,
            settings=self.settings,
            tasks=self.tasks,
            algorithms=self.algorithm,
            variants=self.variants,
            seeds=self.seeds,
            runs=self.runs,
            cluster=self.cluster if self.engine == "ray" else None,
            dry_run=self.dry_run,
            trust=self.trust,
        )
        bench(request, say, show)


@dataclass(frozen=True)
class Report:
    """Compare runs with the paper's results: tables with intervals, learning curves, the design study."""

    folders: tyro.conf.Positional[tuple[str, ...]] = ("runs",)
    """Where the runs are: folders, or addresses such as s3://bucket/runs."""
    external: tuple[Path, ...] = ()
    """Other programs' results, as CSV with the columns task, seed, step and return; one file per column."""
    html: Path | None = None
    """Write the report here as one self-contained page: with figures, and values shown under the pointer."""
    markdown: Path | None = None
    """Write the report here as Markdown; without any output option it is printed."""
    csv: Path | None = None
    """Write the tables' numbers here."""
    figures: Path | None = None
    """Write every figure to this folder, as SVG."""

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
            if path.name in TABLES or os.path.realpath(path) in map(os.path.realpath, self.external):
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
            for line in markdown(report).splitlines():
                say(line)


def refuse_outputs(paths: Sequence[Path | None], may_be_a_folder: Path | None = None) -> None:
    """Refuses files that cannot be written, before anything is measured or computed for them."""
    for path in filter(None, paths):
        if is_address(str(path)):
            raise MRQError(f"{path} cannot be written: it is an address; give a file or folder.")
        if not path.parent.is_dir():
            raise MRQError(f"{path} cannot be written: there is no folder {path.parent}.")
        if paths.count(path) > 1 or (path.is_dir() and path is not may_be_a_folder):
            raise MRQError(f"{path} cannot be written: it is a folder, or given twice.")


def refuse_unusable(argument: str, before: str) -> None:
    """Refuses an argument that is empty or that no file name can hold; bytes that are not UTF-8 are possible in one."""
    option, equals, value = argument.partition("=") if argument.startswith("--") else (before, "=", argument)
    if equals and not value:
        name = option if option.startswith("--") else "an argument"
        raise MRQError(f"{name} is empty; give it a value, or leave it out.")
    try:
        fit = b"\0" not in os.fsencode(argument)
    except UnicodeEncodeError:
        fit = False
    if not fit:
        raise MRQError(f"the argument {argument!r} has characters that no name can have; give another one.")


def asked(arguments: Sequence[str], flag: str, default: str) -> str:
    """Finds what an option is given on the command line, before the others are known; of several names, the first."""
    found = default
    for argument, following in pairwise([*arguments, ""]):
        name, _, value = argument.partition("=")
        if name == flag:
            found = value or following  # a repeated option replaces the one before
    return default if found.startswith("-") or not found else found


def parse(arguments: Sequence[str]) -> "Command":
    """Turns the command line into a command, with the options of the algorithm that it names."""
    for before, argument in pairwise(["", *arguments]):
        refuse_unusable(argument, before)
    algorithm = algorithm_named(asked(arguments, "--algorithm", DEFAULT))
    preset = asked(arguments, "--preset", DEFAULT_PRESET)
    settings = Settings(hyperparameters=algorithm.preset(preset))
    chosen = {"algorithm": algorithm.name, "preset": preset, "settings": settings}
    commands = (
        Annotated[Train, tyro.conf.subcommand("train", default=Train((), **chosen))]
        | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
        | Annotated[Export, tyro.conf.subcommand("export")]
        | Annotated[Resume, tyro.conf.subcommand("resume")]
        | Annotated[Speed, tyro.conf.subcommand("speed", default=Speed(**chosen))]
        | Annotated[Tasks, tyro.conf.subcommand("tasks")]
        | Annotated[Presets, tyro.conf.subcommand("presets")]
        | Annotated[Doctor, tyro.conf.subcommand("doctor")]
        | Annotated[Bench, tyro.conf.subcommand("bench", default=Bench(tyro.MISSING, preset=preset, settings=settings))]
        | Annotated[Report, tyro.conf.subcommand("report")]
    )
    try:
        command: Command = tyro.cli(
            commands,
            args=list(arguments),
            prog="mrq",
            config=(tyro.conf.OmitArgPrefixes,),
            description="MR.Q: one algorithm, one set of hyperparameters, any Gymnasium environment.",
        )
    except RecursionError:  # while the error is printed
        raise MRQError("the command line has too many arguments that mrq does not know; see mrq --help.") from None
    if isinstance(command, Train | Speed):  # such as -1, for which the options were the default algorithm's
        algorithm_named(command.algorithm)
    if isinstance(command, Train | Speed | Bench):
        algorithm.preset(command.preset)
    return command


Command = Train | Evaluate | Export | Resume | Speed | Tasks | Presets | Doctor | Bench | Report


def main() -> None:
    """Runs the command that was given."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not know every character we use
    started_in()  # remembered before anything changes the working directory
    command = None
    try:
        command = parse(sys.argv[1:])
        command.run()
    except MRQError as error:
        refuse(str(error))
    except BrokenPipeError:
        sys.exit(1)  # nobody reads what we print any more
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        then = ", then use `mrq resume`" if isinstance(command, Train | Resume | Bench) else ""
        refuse(f"no space is left on the disk; make room{then}." if full else f"{error}.")
    except MemoryError as error:
        refuse(f"there is not enough memory ({error}); use smaller networks or batches, or fewer agents.")
    except KeyboardInterrupt as interrupt:
        checkpoint = " a checkpoint, if one was written, is intact."
        refuse(
            "stopped at once;" + checkpoint if isinstance(command, Train | Resume | Bench) else "stopped.",
            interrupted_by(next(iter(interrupt.args), signal.SIGINT)),
        )
