"""A folder as model hubs show it: a card, the policy, a film and run.json."""

import json
import shlex
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np

from mrq.bounds import option
from mrq.environments.options import EnvironmentOptions
from mrq.errors import MRQError
from mrq.files import ASIDE, open_new, remove
from mrq.interface import Say
from mrq.markdown import escaped, markdown_table
from mrq.policy import load_policy
from mrq.printable import condensed
from mrq.report.intervals import estimate
from mrq.training.evaluation import Evaluation
from mrq.training.playing import play
from mrq.training.run_creation import occupied
from mrq.training.run_folder import DOCUMENT, RunFolder, as_json

CARD, POLICY, FILM = "README.md", "policy.onnx", "film.mp4"
EPISODES = 10
LICENCE = "apache-2.0"
SHOWN = ("torch", "numpy", "gymnasium")  # versions


def write_hub_folder(
    path: Path,  # of the run
    folder: Path,
    say: Say,
    trust: bool = False,  # code that the run folder brings may be run
    environment: str | None = None,  # to play in, instead of the one that the run folder names
    best: bool = False,  # the policy of the best evaluation, rather than the latest one
) -> None:
    """Writes all that a hub shows of a run; it is made aside, so that either the whole folder exists or none."""
    if occupied(folder):
        raise MRQError(f"{folder} exists already; choose another folder.")
    run = RunFolder(path, environment)
    policy = load_policy(path, device="cpu", trust=trust, best=best)
    aside = folder.with_name(f".{folder.name}{ASIDE}")
    try:
        remove(aside)
        aside.mkdir(parents=True)
        policy.export(aside / POLICY)
        try:
            evaluation = play(path, EPISODES, True, aside / FILM, "cpu", say, trust, environment, best)
        except MRQError as error:
            say(f"without a film: {error}")
            evaluation = play(path, EPISODES, True, None, "cpu", say, trust, environment, best)
        filmed = (aside / FILM).exists()
        with open_new(aside / DOCUMENT) as file:
            file.write(as_json(run.document()))
        with open_new(aside / CARD) as file:
            file.write(card(run, policy.num_timesteps, evaluation, filmed).encode())
        if folder.exists():
            folder.rmdir()
        aside.rename(folder)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def card(run: RunFolder, steps: int, evaluation: Evaluation, filmed: bool) -> str:
    """Returns the card: what hubs read between its lines of dashes, and Markdown."""
    returns = estimate([np.array(evaluation.returns)], lambda scores: scores[0].mean(-1))
    result = {
        "task": {"type": "reinforcement-learning"},
        "dataset": {"name": run.task, "type": run.task},
        "metrics": [{"type": "mean_reward", "name": "mean return", "value": round(evaluation.mean, 2)}],
    }
    head = {
        "library_name": "mrq",
        "license": LICENCE,
        "tags": ["reinforcement-learning", "deep-reinforcement-learning", run.title, run.task],
        "model-index": [{"name": run.label, "results": [result]}],
    }
    rows = [
        ["task", run.task],
        ["algorithm", run.label],
        ["return", f"{evaluation.mean:,.1f} [{returns.low:,.1f}, {returns.high:,.1f}]"],
        [
            "evaluated",
            f"{EPISODES} episodes without noise; the interval is the 95% bootstrap interval of their mean",
        ],
        ["trained for", f"{steps:,} environment steps, seed {run.seed}"],
        [
            "versions",
            ", ".join([f"mrq {run.made_by}", *(f"{n} {run.versions[n]}" for n in SHOWN if n in run.versions)]),
        ],
        ["licence", LICENCE],
    ]
    lines = [
        "---",
        *(f"{name}: {json.dumps(value)}" for name, value in head.items()),  # JSON is YAML
        "---",
        "",
        f"# {escaped(run.label)} on {escaped(run.task)}",
        "",
        markdown_table(["", ""], rows),
        "",
        *([f'<video src="{FILM}" controls loop></video>', ""] if filmed else []),
        *_reproduction(run, steps),
        "",
        f"`{POLICY}` takes the environment's observations and returns its actions; it needs an ONNX runtime alone.",
        f"`{DOCUMENT}` holds every setting, and the versions of all packages.",
    ]
    return "\n".join(lines) + "\n"


def training_command(run: RunFolder, steps: int) -> str:
    """Returns the command that trains the same agent again."""
    settings, algorithm = run.settings, run.settings.algorithm
    preset, changes = algorithm.closest_preset(settings.hyperparameters)
    options = asdict(settings.environment)
    plain = asdict(EnvironmentOptions())
    changes = changes | {name: value for name, value in options.items() if value != plain[name]}
    if settings.envs > 1:
        changes["envs"] = settings.envs
    words = ["mrq", "train", run.task, "--algorithm", algorithm.name, "--preset", preset]
    words += ["--seed", str(run.seed), "--steps", str(steps)]
    for name, value in changes.items():
        if isinstance(value, bool):
            words.append(option(name) if value else option(f"no_{name}"))
        elif name == "wrapper":
            words += [word for wrapper in value for word in (option(name), wrapper)]
        else:
            words += [option(name), *map(str, value if isinstance(value, tuple) else [value])]
    return shlex.join(words)


def _reproduction(run: RunFolder, steps: int) -> list[str]:
    if run.settings.environment.given_as_object:
        return ["Its environment was given as an object in Python, so no command trains it again."]
    return ["The same agent is trained with", "", f"    {condensed(training_command(run, steps))}"]
