"""A baseline's run: trained, evaluated, recorded and gone on with as MR.Q's are, one agent at a time."""

import json
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import torch

from mrq.algorithm.noise import Noise
from mrq.baselines.baseline import Baseline, Beginning, Kind
from mrq.baselines.environment import PlainEnvironment
from mrq.environments.probing import probe
from mrq.environments.spaces import Fault
from mrq.environments.stepping import failed_at, fault_sentence
from mrq.environments.workers import AnyEnvironments
from mrq.errors import MRQError, one_line
from mrq.interface import Agent, Spec
from mrq.training.checkpoint import latest_checkpoint, write_folder
from mrq.training.devices import chosen_device
from mrq.training.environments import evaluation_environments
from mrq.training.evaluation import evaluate
from mrq.training.interruption import Interruption
from mrq.training.learning_curve import draw_learning_curve
from mrq.training.progress import ProgressBar, Watch
from mrq.training.run_folder import RunFolder, create_run_folder, occupied, run_path
from mrq.training.settings import Settings

SECONDS = "seconds.json"  # that training had taken by a checkpoint
PERIOD = 250  # steps between two looks at the pace


class Acting:
    """A baseline where a learner is evaluated."""

    def __init__(self, baseline: Baseline, spec: Spec) -> None:
        self.spec, self.specs, self.device = spec, [spec], torch.device("cpu")
        self._baseline = baseline

    def exploit(self, states: torch.Tensor, noise: Noise) -> torch.Tensor:
        actions = self._baseline.act(states[0].numpy())
        if self.spec.discrete:
            actions = np.eye(self.spec.action_size, dtype=np.float32)[actions]
        return torch.from_numpy(actions.astype(np.float32))[None]


def train_baseline(kind: Kind, agent: Agent, settings: Settings, root: Path, watch: Watch | None = None) -> None:
    """Begins a run under `root`, or goes on with it; interrupted, it ends with a checkpoint."""
    settings = settings.completed([agent.task])
    probes = probe([agent.task], settings.environment_timeout)
    spec, path = probes[agent.task].spec, run_path(root, *agent)
    kind.refuse_actions_of(agent.task, spec.discrete)
    with closing(PlainEnvironment(agent.task)) as environment:
        run = _opened(path, kind) if occupied(path) else None
        saved = None if run is None else latest_checkpoint(run.checkpoints)
        device = chosen_device(settings.device)
        baseline, seconds = _made(kind, Beginning(environment, agent.seed, settings.total_steps, device, saved))
        if run is None:
            spaces = probes[agent.task].spaces
            run = create_run_folder(path, *agent, settings, False, spaces, baseline.parameters, kind.name)
        else:
            run.settings = run.settings.on_machine_of(settings)
            run.extend(settings.total_steps)
            run.rewind(baseline.steps)
        evaluated = evaluation_environments([agent], probes, settings)
        label = f"{agent.name}, {kind.name}"
        with (
            ProgressBar(label, baseline.steps, settings.total_steps, PERIOD, watch=watch) as progress,
            Interruption() as interrupted,
        ):
            try:
                _train(baseline, Acting(baseline, spec), agent, evaluated, run, seconds, progress, interrupted)
            finally:
                run.close()
                if evaluated is not None:
                    evaluated.close()


def _opened(path: Path, kind: Kind) -> RunFolder:
    run = RunFolder(path)
    if run.algorithm != kind.name:
        raise MRQError(f"the run in {path} is one of {run.algorithm}, not of {kind.name}; choose other --runs.")
    run.lock()
    return run


def _made(kind: Kind, beginning: Beginning) -> tuple[Baseline, float]:
    """And the seconds that it has been trained for."""
    try:
        return kind.make(beginning), _seconds(beginning.saved)
    except MRQError:
        raise
    except Exception as error:
        if beginning.saved is None:
            raise
        raise MRQError(
            f"the checkpoint {beginning.saved} cannot be read ({one_line(error)}); without it the run begins anew."
        ) from error


def _train(
    baseline: Baseline,
    acting: Acting,
    agent: Agent,
    environments: AnyEnvironments | None,
    run: RunFolder,
    seconds: float,  # that it has been trained for already
    progress: ProgressBar,
    interrupted: Interruption,
) -> None:
    settings = run.settings
    began = last_checkpoint = time.monotonic()
    began -= seconds

    def evaluate_if_due() -> None:
        steps = baseline.steps
        if environments is None or not settings.evaluates_at(steps):
            return
        rows = run.evaluations()
        if rows and int(rows[-1]["step"]) == steps:
            return
        before, episodes = time.monotonic(), settings.evaluation_episodes
        evaluations = evaluate(acting, environments, [agent], steps, episodes, interrupted=interrupted)
        if environments.failed:
            save()
            raise MRQError(next(iter(environments.failed.values())))
        if evaluations is not None:
            run.record_evaluation(steps, evaluations[0], before - began)
            progress.show_evaluation(steps, {agent: evaluations[0].mean})
            progress.say(f"step {steps:,}: return {evaluations[0]}")
            progress.leave_out(time.monotonic() - before)

    def save() -> None:
        def fill(folder: Path) -> None:
            baseline.save(folder)
            (folder / SECONDS).write_text(json.dumps(time.monotonic() - began))

        write_folder(run.checkpoints, baseline.steps, fill)
        draw_learning_curve(run)

    def after_step() -> bool:
        nonlocal last_checkpoint
        evaluate_if_due()
        if time.monotonic() - last_checkpoint >= 60 * settings.checkpoint_minutes:
            save()
            last_checkpoint = time.monotonic()
        progress.show(baseline.steps, learning=True)
        return baseline.steps < settings.total_steps and not interrupted()

    evaluate_if_due()
    if baseline.steps < settings.total_steps and not interrupted():
        try:
            baseline.learn(settings.total_steps, after_step)
        except Fault as fault:
            save()
            raise MRQError(fault_sentence(agent.name, failed_at(baseline.steps), str(fault))) from fault
    save()


def _seconds(saved: Path | None) -> float:
    return 0.0 if saved is None else float(json.loads((saved / SECONDS).read_text()))
