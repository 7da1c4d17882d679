"""MRQ: an agent in Python, with Stable-Baselines3's conventions for learn, predict, save and load."""

import operator
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from gymnasium.vector import VectorEnv

from mrq.algorithms.registry import hyperparameters_from
from mrq.bounds import check_values
from mrq.callbacks import CallbackLike, callbacks_from
from mrq.environments.batched import BatchedEnvironments
from mrq.environments.checked import CheckedEnvironment
from mrq.environments.environments import Environments
from mrq.environments.making import Made, single
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
from mrq.interface import MASKS, SPACES, Array, Identity
from mrq.policy import Policy, PredictionState
from mrq.terminal import say
from mrq.training.building import build_population
from mrq.training.compiling import compile_if_possible, worth_compiling
from mrq.training.devices import chosen_device, overlaps, set_precision
from mrq.training.environments import EVALUATED_AT_ONCE, environments_of, made_by
from mrq.training.film import rendered
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
        self._policy = self._present_policy()

    @property
    def num_timesteps(self) -> int:
        """Environment steps taken so far (Stable-Baselines3's name for it)."""
        return self._population.steps

    @property
    def policy(self) -> Policy:
        """What acts: `predict` and `export`, without what learns."""
        self._policy.num_timesteps = self.num_timesteps
        return self._policy

    def get_env(self) -> BatchedEnvironments:
        """Returns the agent's environments, to be stepped by hand; what it learns next begins new episodes."""
        if isinstance(self._environments[0], VectorEnv):
            raise MRQError("the agent's environments are a VectorEnv already; use that one.")
        single_ones = [single(one, self.task) for one in self._environments]
        ours = self._environments

        def begin_anew() -> None:
            if self._environments is ours:  # and not others since
                self._population.begin_anew(slice(None))

        return BatchedEnvironments(single_ones, begin_anew)

    def set_env(self, env: EnvironmentSource) -> None:
        """Learns in another environment from now on: one with the same spaces, such as with other arguments."""
        source = Recipe(env) if isinstance(env, str) else env
        made = several(source, self._settings.envs)
        view = self._settings.environment.view
        options = replace(options_from(source, made, self.task), **view)
        checked = checked_as_it_is(made[0], Recipe(self.task, options))
        theirs, ours = describe_spaces(made[0], checked.translator.spec.masked), self._described()
        if any(theirs[name] != ours[name] for name in (*SPACES, MASKS)):
            raise MRQError(f"the agent learns with {_listed(ours)} and this environment has {_listed(theirs)}.")
        self._population.move_to(environments_of(Identity(self.task, self.seed), checked, made[1:], options))
        self._source, self._environments, self._translator = source, made, checked.translator
        self._settings = replace(self._settings, environment=options)
        self._policy = self._present_policy()
        self._folder, self._loaded_as = None, {}  # a folder records one environment

    def learn(
        self,
        total_steps: int | None = None,
        callback: CallbackLike | Sequence[CallbackLike] | None = None,
        *,
        evaluate_every: int = 0,
        run_folder: str | Path | None = None,
        progress_bar: bool = False,
        total_timesteps: int | None = None,
        track: Sequence[TrackerName] = Settings.track,
        reset_num_timesteps: bool = False,
    ) -> Self:
        """Trains for `total_steps` more environment steps; `total_timesteps` is Stable-Baselines3's name for them.

        `callback` is one or several of mrq.callbacks, or a function of the agent that is called after every step;
        False stops the training. `evaluate_every` and `run_folder` do what they do on the command line: evaluations
        every so many steps, printed as they come, and a folder with evaluations.csv, TensorBoard events and
        checkpoints. Ctrl-C stops early and keeps what was learned. `track` names the trackers that are told of a
        training with a run folder.
        """
        given = [number for number in (total_steps, total_timesteps) if number is not None]
        if len(given) != 1:
            raise MRQError("learn takes the number of steps to train for, once: learn(10_000).")
        if reset_num_timesteps:
            raise MRQError(
                "reset_num_timesteps must be False: exploration and evaluations go by the steps that the agent has "
                "taken; make a new MRQ to begin again."
            )
        more = _whole(given[0], "total_steps")
        callbacks = callbacks_from(callback, self)
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
        for waiting in callbacks:
            if waiting.needs_evaluations and not evaluate_every:
                raise MRQError(f"{type(waiting).__name__} waits for evaluations; give learn evaluate_every.")
        evaluation_environments = self._evaluation_environments() if evaluate_every else None
        make_room(self._population, settings, lambda _: None)
        population = self._population
        if not population.compiled and worth_compiling(settings, population.device):
            compile_if_possible(population.works, population.device, say, required=settings.compile == "on")
        listeners: list[Listener] = [ProgressBar()] if progress_bar or evaluate_every > 0 else []
        interrupted = train_runs(
            population,
            evaluation_environments,
            [] if run_folder is None else [self._recording_at(Path(run_folder).absolute(), settings)],
            settings,
            Listeners(listeners),
            callbacks,
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
        """The action for one observation, or for each of a batch, and the state for the next; see `Policy.predict`."""
        return self._policy.predict(observation, state, episode_start, deterministic, action_masks)

    def export(self, path: str | Path, sample: bool = False) -> None:
        """Writes what was learned so far as a file that needs no mrq, .onnx or .pt2; see `Policy.export`."""
        self.policy.export(path, sample)

    def _present_policy(self) -> Policy:
        identity, learner = Identity(self.task, self.seed), self._population.learner
        return Policy(identity, self._translator, learner, self._settings.hyperparameters, self.num_timesteps)

    def environment_to_film(self) -> CheckedEnvironment:
        """Makes an environment like those of the agent's evaluations, which renders pictures."""
        make = maker_of(self._source, "films need an environment of their own", in_evaluations=True)
        made = single(make(**rendered()), self.task)
        return CheckedEnvironment(made, self._settings.environment, self._translator.spec.masked)

    def save(self, path: str | Path) -> None:
        """Writes a run folder with a complete checkpoint: `MRQ.load`, `mrq evaluate` and `mrq resume` take it.

        Saving to the same path again replaces the checkpoint; what else the folder holds stays.
        """
        path = Path(path).absolute()
        run = self._open(path) if occupied(path) else self._create(path, self._settings)
        try:
            run.change(steps=max(run.settings.total_steps, self.num_timesteps))
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
        run.change(steps=settings.total_steps, track=settings.track)
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


def _listed(spaces: Mapping[str, Any]) -> str:
    return ", ".join(spaces[name] for name in (*SPACES, MASKS))


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
