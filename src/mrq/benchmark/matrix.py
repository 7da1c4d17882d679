"""The run matrix: tasks x algorithms and variants x seeds, which of its runs are finished, and which train together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import groupby
from pathlib import Path

from mrq.algorithms.algorithm import DEFAULT_PRESET, Algorithm
from mrq.algorithms.registry import default_algorithm
from mrq.bounds import option
from mrq.environments.tasks import paper_task, study_steps, suite_of
from mrq.errors import MRQError
from mrq.interface import Identity, Image, Spec
from mrq.replay.allocation import bytes_needed, slots_needed
from mrq.training.run_creation import occupied, run_path
from mrq.training.run_folder import RunFolder
from mrq.training.settings import Settings

LARGEST_FLEET = 64  # more agents gain next to nothing, and their results come later
BYTES_BESIDE_REPLAY = 400_000_000  # of an agent that sees vectors: networks, moments and gradients, with room to spare


class RunState(Enum):
    """How far a run of the matrix is."""

    TO_DO = "to do"
    UNFINISHED = "unfinished"
    FINISHED = "finished"
    UNUSABLE = "unusable"

    @property
    def due(self) -> bool:
        """Whether the run still has to be trained."""
        return self in (RunState.TO_DO, RunState.UNFINISHED)


@dataclass(frozen=True)
class Job:
    """One run of the matrix."""

    identity: Identity
    label: str  # the algorithm's title, with its preset, or a variant
    settings: Settings  # complete; their hyperparameters are those of the algorithm or the variant
    root: Path  # its folder is made here, as by `mrq train --runs`
    trust: bool = False  # code that its folder brings may be run

    @property
    def path(self) -> Path:
        """The run folder."""
        return run_path(self.root, *self.identity)

    @property
    def name(self) -> str:
        """What messages call it."""
        is_default = self.label == default_algorithm().title
        return self.identity.name if is_default else f"{self.identity.name}, {self.label}"


def jobs(
    tasks: Sequence[str],
    algorithms: Sequence[Algorithm],
    variants: Sequence[str],
    seeds: Sequence[int],
    settings: Settings,
    root: Path,
) -> list[Job]:
    """Returns the runs of every algorithm, and of those variants that it has, on the tasks that it can learn.

    The default algorithm's run folders are where `mrq train` makes them; other algorithms, presets and variants have
    folders of their own under `root`. The hyperparameters in `settings` belong to one algorithm; the others have their
    defaults.
    """
    made = []
    for algorithm in algorithms:
        given = algorithm is settings.algorithm
        plain = replace(settings, hyperparameters=settings.hyperparameters if given else algorithm.hyperparameters())
        learnable = [task for task in tasks if algorithm.obstacle(_spec(task)) is None]
        if not learnable:
            algorithm.refuse([_spec(tasks[0])], tasks[:1])
        preset, _ = algorithm.closest_preset(plain.hyperparameters)
        known = [variant for variant in variants if variant in algorithm.variants]
        if known and preset != DEFAULT_PRESET:
            raise MRQError(f"the variants change the preset {DEFAULT_PRESET}; give either --variants or --preset.")
        for label in (algorithm.titled(preset), *known):
            place = root if label == default_algorithm().title else root / label.replace(" ", "-")
            for task in learnable:
                own = plain if label not in known else _varied(plain, label, task)
                own = own.completed([task])
                made += [Job(Identity(task, seed), label, own, place) for seed in seeds]
    return made


def _varied(settings: Settings, variant: str, task: str) -> Settings:
    """Returns the settings of a variant, which trains as long as in the paper's study unless told otherwise."""
    steps = study_steps(suite_of(task)) if settings.steps is None else settings.steps
    hyperparameters = settings.algorithm.varied(settings.hyperparameters, variant)
    return replace(settings, steps=steps, hyperparameters=hyperparameters)


def state_of(job: Job) -> tuple[RunState, int, str]:
    """Returns the state of a job's run, the step of its latest checkpoint, and why it is unusable."""
    if not occupied(job.path):
        return RunState.TO_DO, 0, ""
    try:
        run = RunFolder(job.path)
        step, unfinished = run.step, run.unfinished
    except MRQError as error:
        return RunState.UNUSABLE, 0, str(error)
    if difference := _difference(run, job):
        return RunState.UNUSABLE, 0, f"the run in {job.path} {difference}; choose another place with --runs."
    due = step < job.settings.total_steps or (step == run.settings.total_steps and unfinished)
    try:
        if due:
            run.refuse_earlier_format()
    except MRQError as error:
        return RunState.UNUSABLE, step, str(error)
    return (RunState.UNFINISHED if due else RunState.FINISHED), step, ""


def _difference(run: RunFolder, job: Job) -> str:
    """Returns how a run differs from its job, as a part of a sentence; "" if it does not."""
    if run.title != job.settings.algorithm.title:
        return f"was trained with {run.title}, not with {job.settings.algorithm.title}"
    if run.settings.hyperparameters != job.settings.hyperparameters:
        return "was trained with other hyperparameters"
    if run.settings.environment != job.settings.environment:
        return "has an environment that is made with other options"
    for name in ("envs", "evaluate_every", "evaluation_episodes"):
        theirs, asked = getattr(run.settings, name), getattr(job.settings, name)
        if theirs != asked:
            return f"has {option(name)} {theirs}, not {asked}"
    return ""


def fleets(due: Sequence[Job], memory: int | None, largest: int = LARGEST_FLEET) -> list[list[Job]]:
    """Groups jobs into fleets, which train together and fit into `memory` bytes of a GPU; None means no GPU.

    Without a GPU every job trains alone, as do agents that see images: they gain nothing by training together.
    """

    def kind(job: Job) -> str:
        return repr((suite_of(job.identity.task), job.settings, job.root, occupied(job.path)))

    made = []
    for _, group in groupby(sorted(due, key=kind), key=kind):
        together = list(group)
        alone = bool(_spec(together[0].identity.task).images) or not together[0].settings.algorithm.in_populations
        size = 1 if alone or memory is None else max(1, memory // max(map(_bytes, together)))
        size = min(size, largest)
        made += [together[start : start + size] for start in range(0, len(together), size)]
    return made


def _bytes(job: Job) -> int:
    """Returns what an agent that sees vectors takes of a GPU's memory."""
    slots = slots_needed(job.settings.total_steps, job.settings.hyperparameters.replay, job.settings.envs)
    return sum(bytes_needed(1, _spec(job.identity.task), slots)) + BYTES_BESIDE_REPLAY


def _spec(name: str) -> Spec:
    """Returns what a task of the paper looks like, without the stacking of images."""
    task = paper_task(name)
    shape = tuple(int(size) for size in task.observation.split("x"))
    continuous, choices = (0, (task.actions,)) if task.discrete else (task.actions, ())
    if len(shape) == 1:
        return Spec(numbers=shape[0], continuous=continuous, choices=choices)
    image = Image(1, *shape) if len(shape) == 2 else Image(*shape)  # Atari's images are grey
    return Spec((image,), continuous=continuous, choices=choices)
