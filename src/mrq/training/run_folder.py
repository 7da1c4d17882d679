"""The folder of one run: one algorithm, one task, one seed, and all that they produced.

run.json             the settings, and the versions of everything
evaluations.csv      one row per evaluation
learning_curve.png   the same, as a picture
tensorboard/         losses, values, speed, training returns
tracking.json        the runs of other trackers that it belongs to; see tracking_file.py
checkpoints/         the latest complete state, and the one before it
best/                the policy with the best evaluation, without what training needs
films/               the agent at some evaluations, if asked for
lock                 empty; held by the process that trains the run

The folder may come from a stranger: nothing in it is followed out of it; see files.py.
"""

import fcntl
import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mrq.algorithms.algorithm import Algorithm
from mrq.algorithms.registry import algorithm_titled, default_algorithm
from mrq.bounds import Between
from mrq.environments.options import EnvironmentOptions
from mrq.environments.tasks import module_of
from mrq.errors import DAMAGE, MRQError, one_line
from mrq.files import is_folder, open_regular, read_text, written_aside
from mrq.interface import DEFINITIONS, MASKED, MASKS, SPACES, Array, Identity, Say
from mrq.printable import is_encodable
from mrq.training import checkpoint as checkpoints
from mrq.training.checkpoint import AgentState, CheckpointFault
from mrq.training.evaluations_table import Row, as_text, read_rows, summary
from mrq.training.settings import LOCAL_TRACKERS, Settings, TrackerName, checked_seeds, checked_task

if TYPE_CHECKING:
    from mrq.environments.recipe import Recipe
    from mrq.environments.spaces import Translator

DOCUMENT, EVALUATIONS = TABLES = ("run.json", "evaluations.csv")  # the settings, and the results
CHECKPOINTS, BEST, TENSORBOARD, CURVE = "checkpoints", "best", "tensorboard", "learning_curve.png"
FILMS = "films"
LARGEST_DOCUMENT = 10_000_000  # bytes
MOST_PARAMETERS = 10**15
Result = TypeVar("Result")


class RunFolder:
    """An existing run folder: its files, and its lock."""

    def __init__(self, path: Path, environment: str | None = None) -> None:
        self.path = path
        self.environment = environment  # the user's name of one to make instead of the folder's own
        try:
            document = _read_document(path)
            self.title = str(document.get("algorithm", default_algorithm().title))  # of the algorithm
            known = self._algorithm()
            algorithm = known or default_algorithm()
            settings = {name: _as_tuple(value) for name, value in document["settings"].items()}
            made_with = dict(settings.pop("environment", {}))  # versions before 0.2 recorded the task alone
            options = EnvironmentOptions(**{name: _as_tuple(value) for name, value in made_with.items()})
            written = settings.pop("hyperparameters", {})
            # This version may not have the algorithm. Until version 0.2, baselines recorded MR.Q's hyperparameters,
            # which they do not have.
            own = written if known and fields(known.hyperparameters) else {}
            hyperparameters = algorithm.hyperparameters(**own)
            self.task, (self.seed,) = checked_task(str(document["task"])), checked_seeds((document["seed"],))
            self.settings = Settings(**settings, environment=options, hyperparameters=hyperparameters).completed(
                [self.task]
            )
            self.compiled, self.spaces = bool(document["compiled"]), dict(document["spaces"])
            self.parameters = int(document.get("parameters", 0))
            Between(0, MOST_PARAMETERS).check(self.parameters, f"the number of parameters in {path / DOCUMENT}")
            self.made_by = str(document.get("mrq", ""))  # the version of mrq
            self.machine, self.versions = dict(document.get("machine", {})), dict(document.get("versions", {}))
            # Version 0.1 did not record whether there has been a checkpoint.
            self._has_been_saved = bool(document.get("saved", True))
        except FileNotFoundError:
            raise MRQError(f"there is no run in {path}: it has no run.json.") from None
        except NotADirectoryError:
            raise MRQError(f"{path} is not a folder; give a run folder, such as runs/Pendulum-v1/seed-0.") from None
        except MRQError as error:
            raise MRQError(f"{path / DOCUMENT} cannot be used: {error}") from None
        except DAMAGE as error:
            raise _unreadable(path, error) from None
        self._lock: int | None = None
        self._checkpoint: Path | None = None  # the one that this process read or wrote last
        self._rows: list[Row] | None = None  # of evaluations.csv, while this process adds to them

    def _algorithm(self) -> Algorithm | None:
        """Returns the run's algorithm, or None if this version of mrq does not have it."""
        try:
            return algorithm_titled(self.title)
        except MRQError:
            return None

    def refuse_unknown_algorithm(self) -> None:
        """Refuses to train or play a run of an algorithm that this version of mrq does not have."""
        if self._algorithm() is None:
            raise MRQError(
                f"the run in {self.path} was trained with {self.title}, an algorithm that this version of mrq does not "
                "have."
            )

    @property
    def label(self) -> str:
        """What reports call it: the algorithm's title, a variant, or the title with what was changed."""
        algorithm = self._algorithm()
        return self.title if algorithm is None else algorithm.label(self.settings.hyperparameters)

    @property
    def identity(self) -> Identity:
        return Identity(self.task, self.seed)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What a checkpoint must have been written with to belong to this run."""
        return fingerprint(self.identity, self.settings)

    @property
    def checkpoints(self) -> Path:
        return self.path / CHECKPOINTS

    @property
    def step(self) -> int:
        """The step of its latest checkpoint that is not damaged; 0 without any."""

        def step(checkpoint: Path) -> int:
            if _is_of_earlier_format(checkpoint):
                return int(checkpoint.name.rpartition("-")[2])
            return checkpoints.step_of(checkpoint)

        return self._newest(step, lambda _: None) or 0

    @property
    def unfinished(self) -> bool:
        """Whether some of its steps are left, or the evaluation after them."""
        rows = self.evaluations()
        owes = self.settings.evaluation_period > 0 and (not rows or int(rows[-1]["step"]) < self.step)
        return self.step < self.settings.total_steps or owes

    @property
    def needs_trust(self) -> bool:
        """Whether code that the folder brings is run when it is resumed or played."""
        return self._is_unpickled or (self.environment is None and bool(self.settings.recipe(self.task).code))

    @property
    def _is_unpickled(self) -> bool:
        folders = (self.checkpoints, self.path / BEST)
        saved = any(checkpoints.latest_checkpoint(folder) is not None for folder in folders)
        return saved and self.settings.algorithm.unpickles

    def refuse_untrusted(self, trust: bool, environment_is_given: bool = False) -> None:
        """Refuses a run that brings code, unless the user trusts its folder.

        The code of an environment that the user names or gives, rather than the folder, may be run.
        """
        if trust:
            return
        if self._is_unpickled:
            raise MRQError(
                f"the run in {self.path} was trained with {self.title}, whose files can hold code that is run when "
                "they are read; if you know where the folder comes from, add --trust (in Python, trust=True)."
            )
        code = self.settings.recipe(self.task).code
        if code and self.environment is None and not environment_is_given:
            named = f" or --env {shlex.quote(self.task)}" if module_of(self.task) and self.is_made_by_name else ""
            raise MRQError(
                f"the run in {self.path} makes its environment {self.task} with {code}, which can run code; if you "
                f"trust it, add --trust{named} (in Python, trust=True or env=…)."
            )

    def trackers(self, asked: Sequence[TrackerName] | None, trust: bool) -> tuple[TrackerName, ...]:
        """Returns the trackers that the user asks for, or those with which the run was made.

        The latter are refused where they could send the run elsewhere and only the folder asks for that.
        """
        if asked is not None:
            return tuple(asked)
        names = " ".join(self.settings.track)
        if not trust and not set(self.settings.track) <= set(LOCAL_TRACKERS):
            raise MRQError(
                f"the run in {self.path} asks to be tracked with {names}, which could upload it; add --track {names}, "
                f"or --track {' '.join(LOCAL_TRACKERS)} to resume it without."
            )
        return self.settings.track

    @property
    def is_made_by_name(self) -> bool:
        """Whether its task alone says what its environment is."""
        return replace(self.settings.environment, **EnvironmentOptions().view) == EnvironmentOptions()

    @property
    def replaced(self) -> str:
        """Says what its own environment is, where the user named a different one; "" otherwise."""
        own = self.settings.environment
        if self.environment is None or self.recipe() == self.settings.recipe(self.task):
            return ""
        return f"{self.task}, given as an object" if own.given_as_object else f"{self.task} {own.made_with}".strip()

    def recipe(self) -> "Recipe":
        """Returns what its environment is made from, or the one that the user named."""
        from mrq.environments.recipe import Recipe  # it brings Gymnasium, which reading a run does not need

        if self.environment is not None:
            return Recipe(self.environment, EnvironmentOptions(**self.settings.environment.view))
        if self.settings.environment.given_as_object:
            raise MRQError(
                f"the environment of the run in {self.path} was given as an object that cannot be made again from "
                "the folder; give one with --env module:factory (in Python, env=…)."
            )
        return self.settings.recipe(self.task)

    def refuse_lost_checkpoints(self) -> None:
        """Refuses to begin again silently where checkpoints have been deleted."""
        if not self._has_been_saved or checkpoints.latest_checkpoint(self.checkpoints) is not None:
            return
        rows = self.evaluations()
        if rows and int(rows[-1]["step"]) > 0:
            raise MRQError(
                f"the run in {self.path} has been evaluated up to step {int(rows[-1]['step']):,}, but its checkpoints "
                f"are gone; restore its folder {CHECKPOINTS}, or remove its {EVALUATIONS} to begin again at step 0."
            )

    def saved_state(self, say: Say) -> AgentState | None:
        """Reads its latest checkpoint that is not damaged; returns None where it has none."""

        def read(checkpoint: Path) -> AgentState:
            self._refuse_earlier_format(checkpoint)
            tensors, arrays = checkpoints.read_tensors(checkpoint), checkpoints.read_arrays(checkpoint)
            state = AgentState(tensors, arrays, self._counters_of(checkpoint))
            self._checkpoint = checkpoint
            return state

        return self._newest(read, say)

    def saved_learner(self, say: Say, best: bool = False) -> "tuple[Mapping[str, Array], Mapping[str, Any]]":
        """Reads the learner's tensors and all counters of its latest checkpoint that is not damaged, or of its best."""

        def read(checkpoint: Path) -> "tuple[Mapping[str, Array], Mapping[str, Any]]":
            self._refuse_earlier_format(checkpoint)
            return checkpoints.read_tensors(checkpoint), self._counters_of(checkpoint)

        found = checkpoints.newest_sound(self.path / BEST if best else self.checkpoints, read, say)
        if found is None and best:
            raise MRQError(
                f"the run in {self.path} has no {BEST} agent: it was not evaluated, or an earlier version trained it."
            )
        if found is None:
            raise MRQError(f"the run in {self.path} has no checkpoint yet.")
        return found

    def save(self, state: AgentState) -> None:
        """Adds a checkpoint, and keeps the one before it."""
        known = {"run": self.fingerprint, "evaluations": summary(self.evaluations())}
        counters = {**state.counters, **known}
        self._checkpoint = checkpoints.write_checkpoint(
            self.checkpoints, state.tensors, state.arrays, counters, self._checkpoint
        )
        if not self._has_been_saved:
            try:
                self._change_document(lambda document: document.update(saved=True))
            except OSError as error:
                raise CheckpointFault(f"{self.path / DOCUMENT} could not be written: {error.strerror}.") from error
            self._has_been_saved = True

    def keep_best(self, state: AgentState) -> None:
        """Replaces the policy that it keeps as the best."""
        known = {"run": self.fingerprint}
        place = checkpoints.write_checkpoint(self.path / BEST, state.tensors, {}, {**state.counters, **known})
        checkpoints.remove_all_but(place)

    def _newest(self, read: Callable[[Path], Result], say: Say) -> Result | None:
        return checkpoints.newest_sound(self.checkpoints, read, say)

    def _counters_of(self, checkpoint: Path) -> dict[str, Any]:
        """Reads a checkpoint's counters; refuses a checkpoint that belongs to another run.json."""
        counters = checkpoints.read_counters(checkpoint)
        with self.restoring():
            written = counters["run"]
            # Earlier versions had neither other algorithms nor every hyperparameter.
            defaults = asdict(self.settings.algorithm.hyperparameters())
            written = {"algorithm": default_algorithm().title} | written
            written = {"environment": _as_read(EnvironmentOptions()), "envs": 1} | written
            same = written | {"hyperparameters": defaults | written["hyperparameters"]} == self.fingerprint
        if not same or counters["steps"] > self.settings.total_steps:
            raise MRQError(
                f"the algorithm, task, environment, seed, steps or hyperparameters in {self.path / DOCUMENT}, or its "
                "number of environments, are not those of its checkpoint; restore the file from a copy."
            )
        return counters

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Turns whatever goes wrong while a checkpoint is restored into a sentence."""
        try:
            yield
        except KeyError as error:
            raise MRQError(
                f"the checkpoint in {self.path} is from another version of mrq: it has no {error}."
            ) from None
        except (*DAMAGE, RuntimeError) as error:
            raise MRQError(
                f"the checkpoint in {self.path} does not fit its {DOCUMENT} ({one_line(error)}); restore the folder "
                "from a copy, or train again."
            ) from None

    def refuse_earlier_format(self) -> None:
        """Refuses a run of another library's algorithm from before version 0.2."""
        latest = checkpoints.latest_checkpoint(self.checkpoints)
        if latest is not None:
            self._refuse_earlier_format(latest)

    def _refuse_earlier_format(self, checkpoint: Path) -> None:
        if _is_of_earlier_format(checkpoint):
            raise MRQError(
                f"the run in {self.path} was trained by a version of mrq before 0.2, which saved {self.title} in "
                "another way; reports still read it, but it cannot be resumed or evaluated."
            )

    def check_spaces(self, spaces: Mapping[str, Any]) -> None:
        """Refuses an environment with other spaces than the run's, or with masks of actions where that had none."""
        for kind in (*SPACES, MASKS):
            space, trained_with = spaces[kind], self.spaces.get(kind)
            if kind == MASKS and trained_with is None:  # the run was made before this was recorded
                continue
            if space != trained_with:
                named = "" if kind == MASKS else f"the {kind} space "
                raise MRQError(
                    f"the run in {self.path} was trained with {named}{trained_with} and the environment now has "
                    f"{space}; use the environment it was trained with."
                )

    def translator(self) -> "Translator":
        """Returns what translates between the spaces that run.json defines and the networks' terms."""
        from mrq.environments.definitions import defined_space  # it brings Gymnasium, as above
        from mrq.environments.spaces import Translator

        definitions = self.spaces.get(DEFINITIONS)
        if definitions is None:
            raise MRQError(
                f"{self.path / DOCUMENT} does not define the run's spaces: an earlier version of mrq wrote it, or they "
                "have too many different bounds; use MRQ.load, which makes the environment."
            )
        try:
            observation_space, action_space = (defined_space(definitions[name]) for name in SPACES)
        except (AssertionError, *DAMAGE) as error:  # Gymnasium asserts
            raise MRQError(f"the spaces in {self.path / DOCUMENT} cannot be used ({one_line(error)}).") from None
        return Translator(observation_space, action_space, self.settings.environment, self.spaces.get(MASKS) == MASKED)

    def change(self, **settings: Any) -> None:
        """Changes settings that do not decide the numbers of a run, such as how long it trains."""
        self.settings = replace(self.settings, **settings)
        self._change_document(lambda document: document["settings"].update(settings))

    def document(self) -> dict[str, Any]:
        """Returns what run.json says."""
        try:
            return _read_document(self.path)
        except DAMAGE as error:  # it was read when this process opened the run
            raise _unreadable(self.path, error) from None

    def _change_document(self, change: Callable[[dict[str, Any]], None]) -> None:
        document = self.document()
        change(document)
        with written_aside(self.path / DOCUMENT) as file:
            file.write(as_json(document))

    def lock(self) -> None:
        """Keeps a second process from training the same run, until this one ends or closes the run.

        It locks a file rather than the folder, so that other machines see the lock on a disk that they share by NFS.
        """
        refuse_unwritable_name(self.path)
        for name in (CHECKPOINTS, BEST, FILMS, TENSORBOARD):
            if (self.path / name).is_symlink():
                raise MRQError(f"{self.path / name} is a symbolic link; replace it with the folder itself.")
            if (self.path / name).exists() and not (self.path / name).is_dir():
                raise MRQError(f"{self.path / name} is not a folder; remove it, or restore the folder from a copy.")
        if is_folder(self.path / CURVE):
            raise MRQError(f"{self.path / CURVE} is a folder; remove it.")
        try:
            self._lock = open_regular(self.path / "lock", os.O_RDWR | os.O_CREAT)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MRQError(f"another process is training the run in {self.path}; wait for it, or stop it.") from None
        except OSError as error:
            raise MRQError(f"the run in {self.path} cannot be locked: {error.strerror}.") from None

    def check_evaluations(self, counters: Mapping[str, Any]) -> None:
        """Refuses evaluations.csv if its rows are not those that the checkpoint knows, unless the file was removed."""
        known = counters.get("evaluations")  # versions before 0.2 did not record them
        if not known or not (self.path / EVALUATIONS).exists():
            return
        with self.restoring():
            same = summary(self.evaluations()[: known["rows"]]) == known
        if not same:
            raise MRQError(
                f"{self.path / EVALUATIONS} has changed since the checkpoint was written; restore it from a copy, or "
                "remove it to resume the run without its earlier evaluations."
            )

    def checked_evaluations(self) -> list[Row]:
        """Returns the rows of evaluations.csv; refuses those that are not what its latest readable checkpoint knows."""
        counters = {}
        with suppress(MRQError):  # first, because a training may add to both
            counters = self._newest(checkpoints.read_counters, lambda _: None) or {}
        self.check_evaluations(counters)
        return self.evaluations()

    def rewind(self, step: int) -> None:
        """Deletes the evaluations after `step`, which a resumed run will do again."""
        self._rows = [row for row in self.evaluations() if int(row["step"]) <= step]
        self._write(self._rows)

    def record(self, row: Row) -> None:
        """Appends a row to evaluations.csv."""
        rows = [*self.evaluations(), row]
        if not (self.path / EVALUATIONS).exists():  # somebody has removed it meanwhile
            self._write(rows)
        else:
            descriptor = open_regular(self.path / EVALUATIONS, os.O_WRONLY | os.O_APPEND)
            with open(descriptor, "ab") as file:
                file.write(as_text([row]).removeprefix(as_text([])).encode())
                file.flush()
                os.fsync(file.fileno())
        self._rows = rows

    def _write(self, rows: Sequence[Row]) -> None:
        with written_aside(self.path / EVALUATIONS) as file:
            file.write(as_text(rows).encode())

    def evaluations(self) -> list[Row]:
        """Returns the rows of evaluations.csv."""
        return read_rows(self.path / EVALUATIONS, self.identity) if self._rows is None else list(self._rows)

    def close(self) -> None:
        """Releases the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _is_of_earlier_format(checkpoint: Path) -> bool:
    """Says whether a version before 0.2 wrote a checkpoint of another library's algorithm."""
    return (checkpoint / "seconds.json").exists()


def _read_document(path: Path) -> dict[str, Any]:
    document = json.loads(read_text(path / DOCUMENT, LARGEST_DOCUMENT))
    if not isinstance(document, dict):
        raise ValueError("it is not an object")
    digest = document.pop("digest", None)  # versions before 0.2 wrote none
    if digest is not None and digest != checkpoints.digest_of(document):
        raise ValueError("it has changed since mrq wrote it; if you changed it on purpose, remove its digest")
    return document


def _unreadable(path: Path, error: Exception) -> MRQError:
    return MRQError(f"{path / DOCUMENT} cannot be read ({error}); restore it from a copy.")


def as_json(document: Mapping[str, Any]) -> bytes:
    """Returns the content of run.json."""
    return (json.dumps({**document, "digest": checkpoints.digest_of(document)}, indent=1) + "\n").encode()


def fingerprint(identity: Identity, settings: Settings) -> dict[str, Any]:
    """Returns what decides the numbers of a run."""
    return {
        "algorithm": settings.algorithm.title,
        "task": identity.task,
        "seed": identity.seed,
        "hyperparameters": asdict(settings.hyperparameters),
        "environment": _as_read(settings.environment),
        "envs": settings.envs,
    }


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _as_read(options: EnvironmentOptions) -> dict[str, Any]:
    """Returns options as they are read from JSON."""
    return cast(dict[str, Any], json.loads(json.dumps(asdict(options))))


def refuse_unwritable_name(path: Path) -> None:
    """Refuses to train where nothing can be written, or TensorBoard cannot."""
    if "\0" in str(path):
        raise MRQError(f"the path {str(path)!r} has a character that no name can have; give another one.")
    if not is_encodable(str(path)):
        raise MRQError(f"the path {path} is not UTF-8, so TensorBoard cannot write there; rename it to train there.")
