"""Gives every option of every command hostile values. The options are those of the commands' dataclasses."""

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, get_args

from mrq import cli
from mrq.algorithms.registry import ALGORITHMS, algorithm_named
from tests.hostile import HOSTILE
from tests.soak.commands import Command
from tests.soak.configurations import CONFIGURATIONS, DRQV2, MRQ
from tests.soak.outcomes import Outcome, Result, Wrong
from tests.soak.references import PAUSED, copied, reference
from tests.soak.results import snapshot

PATIENCE = 8.0  # seconds after which a command that goes on is asked to end
NUMBERS = (
    *(
        "",
        "-1",
        "-0",
        "0",
        "1",
        "2",
        "1_000",
        "nan",
        "inf",
        "-inf",
        "1e-320",
        "1e38",
        "1e39",
        "1e308",
        "-1e308",
        "1e999",
    ),
    *("2147483647", "2147483648", "4294967296", "9223372036854775807", "9223372036854775808", "9" * 400, "9" * 5_000),
    *("-9223372036854775809", "0x10", "1e3", "1.5", "½", "١٢", "1,000", "None", "True", "[]", "{}", "1 2", " 7"),
)
TEXTS = (
    *(
        "-",
        "--",
        "--help",
        "--nothing",
        "/dev/null",
        "/dev/full",
        "/dev/stdin",
        "/dev/zero",
        "/proc/self/mem",
        "/",
        ".",
    ),
    *("..", "~", "s3://bucket/runs", "s3://", "file:///tmp/x", "http://localhost:1/x", "memory://x", "x" * 5_000),
    *(
        "x/" * 3_000,
        "caf\udce9",
        "\udcff\udcfe",
        "a\nb",
        "%s",
        "$(id)",
        "os:abort",
        "os:_exit",
        "sys:exit",
        "builtins:list",
    ),
    *(
        "no_such_module:make",
        "json:loads",
        "tests.soak.environments:nothing",
        ":",
        "x:",
        ":x",
        "gym/",
        "dmc/",
        "atari/x",
    ),
    *(
        "dmc/cheetah-run/../x",
        "Pendulum-v1",
        "pendulum",
        "Pendulum-v999",
        "pipe",
        "loop",
        "folder",
        "file",
        "runs",
        "link",
    ),
    *(
        "cuda",
        "cuda:99",
        "cuda:-1",
        "mps",
        "meta",
        "cpu:7",
        "all",
        "gym",
        "mrq",
        "ppo",
        "nowhere/deeper/x",
        "unwritable/x",
    ),
)
VALUES = (*NUMBERS, *TEXTS, *(text.replace("\0", "") for text in HOSTILE.values()))
SHORT = ("--evaluate-every", "20", "--evaluation-episodes", "1", "--device", "cpu", "--workers", "0")


@dataclasses.dataclass(frozen=True)
class Option:
    """A field of a command."""

    flag: str  # empty: it has none, and stands alone
    switch: bool


def options_of(command: Any, algorithm: str) -> list[Option]:
    """Returns a command's options, with those of an algorithm's hyperparameters."""
    return list(_options(command, algorithm_named(algorithm).hyperparameters))


def _options(kind: Any, hyperparameters: Any) -> Iterator[Option]:
    for field in dataclasses.fields(kind):
        inner = hyperparameters if field.name == "hyperparameters" else field.type
        if dataclasses.is_dataclass(inner):
            yield from _options(inner, hyperparameters)
        else:
            flag = "" if "Positional" in repr(field.type) else f"--{field.name.replace('_', '-')}"
            yield Option(flag, field.type is bool)


COMMANDS = {command.__name__.lower(): command for command in get_args(cli.Command)}
SHARES = {"train": 40, "evaluate": 12, "resume": 12, "report": 12, "bench": 12, "speed": 3, "tasks": 2, "doctor": 1}


def trial(rng: Random, place: Path, workspace: Path, configuration: str | None) -> list[Result]:
    """Gives a command one or two hostile options; it works, or says in a sentence why not."""
    name = rng.choices(list(COMMANDS), [SHARES.get(name, 5) for name in COMMANDS])[0]
    algorithm = rng.choice(["mrq", "mrq", *ALGORITHMS])
    _prepare(place, workspace)
    before, runs = snapshot(place / "folder"), snapshot(place / "runs")
    arguments = [name, *_base(name, algorithm)]
    for _ in range(rng.choices([1, 2], [4, 1])[0]):
        arguments += _hostile(rng, rng.choice(options_of(COMMANDS[name], algorithm) or [Option("", False)]))
    ended = Command(arguments, place, {"TMPDIR": str(place)}).end_unless_done(PATIENCE)
    try:
        if ended.fault or (ended.status in (1, 2) and not ended.refused):
            raise Wrong(ended.fault or "no sentence")
        if ended.status not in (0, 1, 2, 130, 143, -15):
            raise Wrong("unexpected status")
        if addresses := [entry.name for entry in place.iterdir() if entry.name.endswith(":") and entry.is_dir()]:
            raise Wrong(f"addresses became folders: {addresses}")
        after = snapshot(place / "folder")
        if any("link" in argument or "folder" in argument for argument in arguments):
            after = {entry: what for entry, what in after.items() if entry in before}  # something may be added there
        if after != before or (ended.status in (1, 2) and _lost(runs, snapshot(place / "runs"))):
            raise Wrong("files changed that have nothing to do with it")
    except Wrong as wrong:
        return [Result(f"input: {name}", Outcome.WRONG, f"{wrong}: {ended}")]
    return [Result(f"input: {name}", Outcome.NOTICED if ended.status in (1, 2) else Outcome.ACCEPTED)]


def _lost(before: dict[str, str], after: dict[str, str]) -> bool:
    return any(name.endswith(("run.json", ".csv", ".safetensors")) and name not in after for name in before)


def _base(name: str, algorithm: str) -> list[str]:
    """Returns arguments with which a command works, and is done soon."""
    small = (*{"mrq": MRQ, "drqv2": DRQV2}.get(algorithm, ()), *SHORT)
    chosen = ["--algorithm", algorithm]
    tasks = {"drqv2": "tests.algorithms.drqv2.pixels:MovingColumn", "td3": "Pendulum-v1", "sac": "Pendulum-v1"}
    task = tasks.get(algorithm, "CartPole-v1")
    folder = "runs/CartPole-v1/seed-0"
    return {
        "train": [task, *chosen, "--steps", "40", "--runs", "new", *small],
        "speed": [task, *chosen, *small],
        "evaluate": [folder, "--episodes", "1"],
        "resume": [folder, "--steps", "90"],
        "report": ["runs", "--html", "report.html"],
        "bench": ["gym", "--dry-run", *chosen],
    }.get(name, [])


def _hostile(rng: Random, option: Option) -> list[str]:
    values = rng.choices(rng.choice([NUMBERS, TEXTS, VALUES]), k=rng.choices([1, 0, 2, 500], [12, 1, 2, 1])[0])
    if not option.flag:
        return values
    if option.switch and rng.random() < 0.7:
        return [rng.choice([option.flag, f"--no-{option.flag[2:]}", f"{option.flag}=x"])]
    return [f"{option.flag}={values[0]}"] if values and rng.random() < 0.5 else [option.flag, *values]


def _prepare(place: Path, workspace: Path) -> None:
    """Fills a folder with what an option may point to."""
    copied(reference(CONFIGURATIONS["discrete"], workspace).place / PAUSED / "runs", place / "runs")
    (place / "folder" / "inner").mkdir(parents=True)
    (place / "folder" / "file").write_text("mine")
    (place / "file").write_text("task,seed,step,return\n")
    (place / "link").symlink_to("folder")
    (place / "loop").symlink_to("loop")
    os.mkfifo(place / "pipe")
    (place / "unwritable").mkdir(mode=0o500)
