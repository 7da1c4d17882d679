"""MRQ: an agent in Python, with Stable-Baselines3's conventions for learn, predict, save and load."""

import operator
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from mrq.algorithms.registry import hyperparameters_from
from mrq.bounds import check_values, shown
from mrq.environments.actions import batched, given_mask
from mrq.environments.environments import Environments
from mrq.environments.history import empty_history
from mrq.environments.making import Made
from mrq.environments.options import IMAGE_SIZE, EnvironmentOptions
from mrq.environments.probing import checked_as_it_is, describe_spaces, spaces_of, try_out
from mrq.environments.recipe import Recipe
from mrq.environments.remarks import remarks_on
from mrq.environments.sources import (
    EnvironmentSource,
    maker_of,
    name_from,
    options_from,
    refuse_repeated,
    several,
)
from mrq.errors import MRQError
from mrq.interface import Array, Identity
from mrq.randomness import Stream, generator
from mrq.terminal import say
from mrq.training.building import build_population
from mrq.training.compiling import compile_if_possible, worth_compiling
from mrq.training.devices import chosen_device, overlaps, set_precision
from mrq.training.environments import EVALUATED_AT_ONCE, environments_of, made_by
from mrq.training.evaluation import choose_actions
from mrq.training.listeners.learning_curve import LearningCurve
from mrq.training.listeners.listener import Listener, Listeners
from mrq.training.listeners.progress_bar import ProgressBar
from mrq.training.listeners.trackers import refuse_unusable_trackers
from mrq.training.loop import save
from mrq.training.run_creation import create_run_folder, occupied
from mrq.training.run_folder import DOCUMENT, RunFolder, fingerprint
from mrq.training.runs import load, make_room, train_runs
from mrq.training.settings import Precision, Settings, Switch, TrackerName, checked_seeds, checked_task

EVALUATIONS_NEED = "evaluations need environments of their own"


class PredictionState(NamedTuple):
    """What `MRQ.predict` is to remember of earlier steps."""

    frames: Array  # (count, history, *frame_shape)
    actions: Array  # (count, action_size), the latest


class MRQ:
    """An agent of MR.Q, or of another algorithm by its name.

    `env` is a Gymnasium id (or module:factory), an environment, or a function that makes one; `task` is what run
    folders call it, by default its id. Nothing needs tuning: the hyperparameters are those of `preset`, by default the
    paper's. `hyperparameters` is a mapping of those that differ from it, or an algorithm's own object with all of them.
    `seed` decides everything that is random. `history`, `action_history`, `image_size` and `text` are the options of
    `mrq train` by these names: how the networks see an observation. With `envs`, the agent steps so many environments
    at once.
    """

    def __init__(
        self,
        env: EnvironmentSource,
        *,
        seed: int = 0,
        task: str | None = None,
        algorithm: str | None = None,
        preset: str | None = None,
        hyperparameters: Any = None,
        history: int | None = None,
        action_history: bool = False,
        image_size: int = IMAGE_SIZE,
        text: int = 0,
        envs: int = 1,
        device: str = "auto",
        compile: Switch = Settings.compile,
        precision: Precision = Settings.precision,
        overlap: Switch = Settings.overlap,
    ) -> None:
        self.seed = checked_seeds((_whole(seed, "the seed"),))[0]
        view = dict[str, Any](history=history, action_history=action_history, image_size=image_size, text=text)
        check_values(EnvironmentOptions, view, str)
        check_values(Settings, {"device": device, "compile": compile, "precision": precision, "overlap": overlap}, str)
        self._source = source = Recipe(env) if isinstance(env, str) else env
        self._environments = several(source, _whole(envs, "envs"))
        first = self._environments[0]
        self.task = checked_task(name_from(source, first) if task is None else task)
        identity = Identity(self.task, self.seed)
        options = replace(options_from(source, self._environments, self.task), **view)
        checked = checked_as_it_is(first, Recipe(self.task, options))
        environments = environments_of(identity, checked, self._environments[1:], options)
        self.observation_space, self.action_space = spaces_of(first)
        self._translator = checked.translator
        self._settings = Settings(
            steps=1,
            envs=len(environments.names),
            device=device,
            compile=compile,
            precision=precision,
            overlap=overlap,
            environment=options,
            hyperparameters=hyperparameters_from(algorithm, preset, hyperparameters),
        ).completed([self.task])
        told = self._settings.algorithm.remarks(self._translator.spec)
        for remark in (*self._translator.remarks, *remarks_on(first), *told):
            say(f"{self.task}: {remark}")
        on = chosen_device(device)
        self._population = build_population(
            [identity],
            environments,
            self._settings.hyperparameters,
            on,
            set_precision(self._settings, on),
            overlaps(self._settings, on),
        )
        self._folder: Path | None = None  # where this agent's run is recorded
        self._loaded: Mapping[str, Any] = {}  # the counters of the checkpoint that it was loaded from
        self._loaded_as: Mapping[str, Any] = {}  # the fingerprint of that run, which may name another environment
        self._expects_masks = environments.spec.masked  # until predict has said that it is called without
        self._prediction = generator(self.seed, Stream.PREDICTION)

    @property
    def num_timesteps(self) -> int:
        """Environment steps taken so far (Stable-Baselines3's name for it)."""
        return self._population.steps

    def learn(
        self,
        total_steps: int,
        *,
        callback: Callable[[Self], bool | None] | None = None,
        evaluate_every: int = 0,
        run_folder: str | Path | None = None,
        progress_bar: bool = False,
        track: Sequence[TrackerName] = Settings.track,
    ) -> Self:
        """Trains for `total_steps` more environment steps.

        `callback` is called after every step and stops the training by returning False. `evaluate_every` and
        `run_folder` do what they do on the command line: evaluations every so many steps, printed as they come, and
        a folder with evaluations.csv, TensorBoard events and checkpoints. Ctrl-C stops early and keeps what was
        learned. `track` names the trackers that are told of a training with a run folder.
        """
        more = _whole(total_steps, "total_steps")
        if more < 1:
            raise MRQError(f"total_steps is {more:,}; it must be 1 or more.")
        evaluate_every = _whole(evaluate_every, "evaluate_every")
        check_values(Settings, {"evaluate_every": evaluate_every, "track": tuple(track)}, str)
        refuse_unusable_trackers(track)
        if run_folder is None and not set(track) <= set(Settings.track):
            raise MRQError("trackers need a run_folder, which remembers their runs; give learn one.")
        settings = replace(
            self._settings, steps=self.num_timesteps + more, evaluate_every=evaluate_every, track=tuple(track)
        )
        evaluation_environments = self._evaluation_environments() if evaluate_every else None
        make_room(self._population, settings, lambda _: None)
        population = self._population
        if not population.compiled and worth_compiling(settings, population.device):
            compile_if_possible(population.works, population.device, say, required=settings.compile == "on")
        listeners: list[Listener] = [ProgressBar()] if progress_bar or evaluate_every > 0 else []
        if callback is not None:
            listeners.append(_AfterEveryStep(lambda: callback(self)))
        interrupted = train_runs(
            population,
            evaluation_environments,
            [] if run_folder is None else [self._recording_at(Path(run_folder).absolute(), settings)],
            settings,
            Listeners(listeners),
        )
        if interrupted.number == signal.SIGTERM:
            signal.raise_signal(signal.SIGTERM)  # everything is saved; the program decides what follows
        return self

    def predict(
        self,
        observation: Any,
        state: PredictionState | None = None,
        episode_start: Array | None = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Any, PredictionState | None]:
        """The action for one observation, or the actions for a batch, and the state to pass in with the next.

        The state is what agents see of earlier steps: the frames and the action before. It is None where they see none.
        `action_masks` are the environment's, for an environment that says which actions are allowed; without them, all
        are. Continuous actions have no noise either way; discrete ones are drawn from the policy unless
        `deterministic`.
        """
        translator, learner = self._translator, self._population.learner
        if self._expects_masks and action_masks is None and given_mask(observation) is None:
            say(
                f"{self.task}: predict is called without action_masks, so any action is allowed; pass the environment's"
            )
            self._expects_masks = False  # it is said once
        before, first = None, None
        if state is not None:
            first = _checked_start(state, episode_start)
            before = state.actions.copy()
            before[first] = 0
        frames, is_batch = translator.frames(observation, before, action_masks)
        count = len(frames)
        history = empty_history(count, translator.spec)
        if state is not None:
            if state.frames.shape != history.frames.shape:
                raise MRQError(
                    f"the state is not that of these observations: it has shape {state.frames.shape} instead of "
                    f"{history.frames.shape}; pass the one that predict returned with their last actions, or None."
                )
            history.frames[:] = state.frames
        history.append(frames)
        history.begin(np.ones(count, bool) if first is None else first, frames)
        generators = None if deterministic else [self._prediction] * count
        chosen = choose_actions(learner, history.frames[None], generators, learner.carries(count))[0]
        actions = [translator.action(action) for action in chosen]
        remembers = translator.spec.history > 1 or self._settings.environment.action_history
        remembered = PredictionState(history.frames, chosen) if remembers else None
        return batched(self.action_space, actions) if is_batch else actions[0], remembered

    def save(self, path: str | Path) -> None:
        """Writes a run folder with a complete checkpoint: `MRQ.load`, `mrq evaluate` and `mrq resume` take it.

        Saving to the same path again replaces the checkpoint; what else the folder holds stays.
        """
        path = Path(path).absolute()
        run = self._open(path) if occupied(path) else self._create(path, self._settings)
        try:
            run.extend(max(run.settings.total_steps, self.num_timesteps))
            save(self._population, [run], LearningCurve([run]), [0])
        finally:
            run.close()

    @classmethod
    def load(
        cls, path: str | Path, env: EnvironmentSource | None = None, device: str = "auto", trust: bool = False
    ) -> Self:
        """The agent saved or trained in a folder. Without `env`, its environment is made again from its id.

        With `env`, this folder still names its own environment, but new ones that the agent is saved to name this one.
        With `trust`, code that the folder brings may be run: a module that its environment names, and the files of
        Stable-Baselines3's algorithms.
        """
        run = RunFolder(Path(path).absolute())
        run.refuse_unknown_algorithm()
        run.refuse_untrusted(trust, env is not None)
        state = run.saved_state(say)
        if state is None:
            raise MRQError(f"the run in {run.path} has no checkpoint yet.")
        agent = cls(
            partial(_made_again, run.recipe()) if env is None else env,
            seed=run.seed,
            task=run.task,
            hyperparameters=run.settings.hyperparameters,
            device=device,
            compile=run.settings.compile,
            precision=run.settings.precision,
            overlap=run.settings.overlap,
            envs=run.settings.envs,
            **run.settings.environment.view,
        )
        run.check_spaces(agent._described())
        agent._folder, agent._loaded_as = run.path, run.fingerprint
        if env is None:
            agent._settings = replace(agent._settings, environment=run.settings.environment)
            agent._source = run.recipe()
        load(agent._population, 0, run, state, say)
        agent._loaded = state.counters
        return agent

    def _recording_at(self, path: Path, settings: Settings) -> RunFolder:
        """Returns the folder that `learn` records to: a new one, or this agent's own."""
        if path != self._folder:
            run = self._create(path, settings)
            self._folder = path
            return run
        run = self._open(path)
        run.settings = replace(run.settings, track=settings.track)
        run.extend(settings.total_steps)
        run.check_evaluations(self._loaded)
        run.rewind(self._population.evaluated_at)
        return run

    def _create(self, path: Path, settings: Settings) -> RunFolder:
        steps = max(settings.total_steps, self.num_timesteps)
        population, spaces = self._population, self._described()
        identity, parameters = Identity(self.task, self.seed), population.learner.parameters_of(0)
        settings = replace(settings, steps=steps)
        return create_run_folder(path, identity, settings, population.compiled, spaces, parameters)

    def _described(self) -> dict[str, str]:
        return describe_spaces(self._environments[0], self._translator.spec.masked)

    def _open(self, path: Path) -> RunFolder:
        if not (path / DOCUMENT).exists():
            raise MRQError(f"{path} exists and is not a run folder; choose another path.")
        run = RunFolder(path)
        if run.fingerprint not in (self._loaded_as, fingerprint(Identity(self.task, self.seed), self._settings)):
            raise MRQError(
                f"{path} holds a run of another algorithm, task, environment, seed or hyperparameters; choose another "
                "path."
            )
        run.lock()
        return run

    def _evaluation_environments(self) -> Environments:
        """Makes environments for evaluation as the agent's own were made."""
        make = maker_of(self._source, EVALUATIONS_NEED, in_evaluations=True)
        made = made_by(make, min(self._settings.evaluation_episodes, EVALUATED_AT_ONCE))
        refuse_repeated([*made, *self._environments], EVALUATIONS_NEED)
        options = self._settings.environment
        try_out(made[0], Recipe(self.task, options))
        first = checked_as_it_is(made[0], Recipe(self.task, options))
        return environments_of(Identity(self.task, self.seed), first, made[1:], options)


class _AfterEveryStep(Listener):
    """Calls a function after every step, which stops the training by returning False."""

    def __init__(self, function: Callable[[], bool | None]) -> None:
        self._function = function

    def step(self, steps: int, steps_per_second: float) -> bool | None:
        return self._function()


def _checked_start(state: PredictionState, episode_start: Any) -> Array:
    """Returns for which of a state's observations an episode begins."""
    if not isinstance(state, PredictionState):
        raise MRQError(
            f"the state is {shown(state)}; pass the one that predict returned with the last action, or None."
        )
    count = len(state.frames)
    first = np.zeros(count, bool) if episode_start is None else np.asarray(episode_start, bool)
    if first.shape != (count,):
        raise MRQError(
            f"episode_start has shape {first.shape}; it must say True or False for each of {count:,} states."
        )
    return first


def _made_again(recipe: Recipe) -> Made:
    try:
        return recipe.make()
    except MRQError as error:
        raise MRQError(f"pass the agent's environment as env=…, because it cannot be made again: {error}") from None


def _whole(number: int, name: str) -> int:
    try:
        return operator.index(number)  # NumPy's integers too
    except TypeError:
        raise MRQError(f"{name} is {number!r}; it must be a whole number.") from None
