"""The run matrix: tasks x variants x seeds, what of it is done, and which runs train together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import groupby
from pathlib import Path

from mrq.baselines.baseline import Kind
from mrq.baselines.kinds import kind_named
from mrq.benchmark.variants import DEFAULT, steps_of, varied
from mrq.environments.tasks import paper_task, suite_of
from mrq.errors import MRQError
from mrq.interface import Agent, Spec
from mrq.replay.buffer import bytes_needed, slots_needed
from mrq.training.run_folder import MRQ, RunFolder, occupied, run_path
from mrq.training.settings import Settings

LARGEST_FLEET = 64  # more agents gain next to nothing, and their results come later
BYTES_BESIDE_REPLAY = 400_000_000  # that an agent of vectors takes for networks, moments and gradients, generously


class State(Enum):
    TO_DO = "to do"
    UNFINISHED = "unfinished"
    FINISHED = "finished"
    UNUSABLE = "unusable"

    @property
    def due(self) -> bool:
        return self in (State.TO_DO, State.UNFINISHED)


@dataclass(frozen=True)
class Job:
    """One run of the matrix."""

    agent: Agent
    variant: str  # MR.Q, a variant of it, or a baseline's name
    settings: Settings  # complete, with the variant's hyperparameters
    root: Path  # where it lies, as `mrq train --runs` would have it

    @property
    def path(self) -> Path:
        return run_path(self.root, *self.agent)

    @property
    def name(self) -> str:
        return self.agent.name if self.variant == DEFAULT else f"{self.agent.name}, {self.variant}"

    @property
    def baseline(self) -> Kind | None:
        return kind_named(self.variant)


def jobs(
    tasks: Sequence[str], variants: Sequence[str], seeds: Sequence[int], settings: Settings, root: Path
) -> list[Job]:
    """MR.Q itself lies where `mrq train` puts it; its variants and baselines have folders of their own under `root`.

    A baseline is left out of tasks whose actions it cannot learn, and refused if there is no other.
    """
    made = []
    for variant in variants:
        baseline = kind_named(variant)
        plain = variant == DEFAULT or baseline is not None
        h = settings.hyperparameters if plain else varied(settings.hyperparameters, variant)
        place = root if variant == DEFAULT else root / variant
        learnable = [task for task in tasks if baseline is None or baseline.can_learn(paper_task(task).discrete)]
        if baseline is not None and not learnable:
            baseline.refuse_actions_of(tasks[0], paper_task(tasks[0]).discrete)
        for task in learnable:
            own = replace(settings, hyperparameters=h)
            if not plain and settings.steps is None:
                own = replace(own, steps=steps_of(suite_of(task)))
            own = own.completed([task])
            made += [Job(Agent(task, seed), variant, own, place) for seed in seeds]
    return made


def state_of(job: Job) -> tuple[State, int, str]:
    """Of a job's run: its state, the step it has come to, and why it is unusable."""
    if not occupied(job.path):
        return State.TO_DO, 0, ""
    try:
        run = RunFolder(job.path)
        step, owes = run.step, run.unfinished
    except MRQError as error:
        return State.UNUSABLE, 0, str(error)
    if other := _what_is_other(run, job):
        return State.UNUSABLE, 0, f"the run in {job.path} {other}; choose other --runs."
    unfinished = step < job.settings.total_steps or (step == run.settings.total_steps and owes)
    return (State.UNFINISHED if unfinished else State.FINISHED), step, ""


def _what_is_other(run: RunFolder, job: Job) -> str:
    """How a run differs from what was asked for; nothing where it does not."""
    algorithm = MRQ if job.baseline is None else job.variant
    if run.algorithm != algorithm:
        return f"is one of {run.algorithm}, not of {algorithm}"
    if job.baseline is None and run.settings.hyperparameters != job.settings.hyperparameters:
        return "was trained with other hyperparameters"
    for name in ("evaluate_every", "evaluation_episodes"):
        theirs, asked = getattr(run.settings, name), getattr(job.settings, name)
        if theirs != asked:
            return f"has --{name.replace('_', '-')} {theirs}, not {asked}"
    return ""


def fleets(due: Sequence[Job], memory: int | None, largest: int = LARGEST_FLEET) -> list[list[Job]]:
    """Those that may train together and fit into `memory` bytes of a GPU; without one, each trains alone.

    Agents that see images gain nothing by company, and baselines know none.
    """

    def kind(job: Job) -> str:
        return repr((suite_of(job.agent.task), job.settings, job.root, occupied(job.path)))

    made = []
    for _, group in groupby(sorted(due, key=kind), key=kind):
        together = list(group)
        alone = _sees_images(together[0]) or together[0].baseline is not None
        size = 1 if alone or memory is None else max(1, memory // max(map(_bytes, together)))
        size = min(size, largest)
        made += [together[start : start + size] for start in range(0, len(together), size)]
    return made


def _sees_images(job: Job) -> bool:
    return suite_of(job.agent.task) in ("dmc-visual", "atari")


def _bytes(job: Job) -> int:
    """What an agent of vectors takes."""
    task = paper_task(job.agent.task)
    spec = Spec((int(task.observation),), 1, task.actions, False)
    slots = slots_needed(job.settings.total_steps, job.settings.hyperparameters)
    return sum(bytes_needed(1, spec, slots)) + BYTES_BESIDE_REPLAY
