"""Tries one environment in a process of its own."""

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

TRIAL = Path(__file__).with_name("trial.py")
TRIAL_SECONDS = 600
QUICKLY = [
    *("--hidden-width", "32", "--state-embedding", "32", "--state-action-embedding", "32", "--action-embedding", "16"),
    *("--steps", "70", "--random-steps", "60", "--batch-size", "4", "--target-period", "5", "--replay-capacity", "500"),
    *("--evaluate-every", "70", "--evaluation-episodes", "1", "--max-episode-steps", "25", "--device", "cpu"),
]
WITHOUT_SCREEN = {
    **{"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy", "MUJOCO_GL": "egl", "PYGLET_HEADLESS": "true"},
    "OMP_NUM_THREADS": "1",
}
# What sentences contain that say how an environment failed, rather than why it is refused.
FAILURES = ("it raised", "its process", "could not be made", "did not answer")


@dataclass(frozen=True)
class Result:
    """What became of an environment."""

    environment: str
    outcome: str  # trains, refused or failed
    why: str = ""
    observation: str = ""
    action: str = ""


def tried(python: Path, environment: str, arguments: list[str]) -> Result:
    """Trains, evaluates, loads and saves an environment with a Python that has it."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [python, TRIAL, *arguments, *QUICKLY],
                cwd=folder,
                env=os.environ | WITHOUT_SCREEN,
                capture_output=True,
                text=True,
                timeout=TRIAL_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return Result(environment, "failed", f"it took more than {TRIAL_SECONDS} seconds")
        if done.returncode == 0:
            return Result(environment, "trains", **json.loads(done.stdout.splitlines()[-1]))
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        sentences = [line.removeprefix("mrq: ") for line in lines if line.startswith("mrq: ")]
        began = any(Path(folder).rglob("run.json"))
        refused = sentences and not began and not any(failure in sentences[-1] for failure in FAILURES)
        why = (sentences or lines)[-1].replace(folder, "").replace(str(python.parents[1]), "")
        return Result(environment, "refused" if refused else "failed", why)
