"""What a command says when a training is over, and its exit status."""

import sys
from pathlib import Path

from mrq.terminal import interrupted_by, refuse, say
from mrq.training.run_folder import CURVE, RunFolder
from mrq.training.runs import Outcome, resume_command


def conclude(outcome: Outcome) -> None:
    """Says what came of a training; ends the command if an agent stopped early or something is left to do.

    A training that a signal could no longer keep from finishing counts as finished.
    """
    if len(outcome.runs) <= 4:
        summarise(outcome.runs)
    else:
        for run in outcome.runs:
            say(f"{run.path}  {last_evaluation(run) or ''}")
    unfinished = [run for run in outcome.runs if run.unfinished]
    status = 0
    if outcome.interrupted and unfinished:
        say(f"interrupted; resume with: {resume_command(unfinished)}")
    if outcome.interrupted and (unfinished or not outcome.all_begun):
        status = interrupted_by(outcome.interrupted)
    if outcome.failed:
        number, all_of_them = len(outcome.failed), len(outcome.runs)
        resuming = "" if outcome.interrupted else f"; resume with: {resume_command(outcome.failed)}"
        refuse(
            f"{number} of {all_of_them} agents stopped early, for the reasons given above. What they had learned at "
            f"their last checkpoint is kept{resuming or '.'}",
            status or 1,
        )
    if status:
        sys.exit(status)


def summarise(runs: list[RunFolder], video: Path | None = None, evaluated: bool = True) -> None:
    """Says what there is to look at, with the runs' last evaluations if `evaluated`, and how to train longer."""
    for run in runs:
        say(f"run folder      {run.path}")
        if evaluated and (evaluation := last_evaluation(run)):
            say(f"evaluation      {evaluation}")
        if (run.path / CURVE).exists():
            say(f"learning curve  {run.path / CURVE}")
        if video is not None:
            say(f"video           {video}")
        if run.unfinished:
            say(f"resume          {resume_command([run])}")
        else:
            say(f"train longer    {resume_command([run])} --steps {2 * run.settings.total_steps}")


def last_evaluation(run: RunFolder) -> str | None:
    """Describes a run's last evaluation, if it has one."""
    rows = run.evaluations()
    return f"return {float(rows[-1]['return_mean']):,.1f} at step {int(rows[-1]['step']):,}" if rows else None
