"""MRQ: an agent in Python, with Stable-Baselines3's conventions for learn, predict, save and load."""

import operator
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import gymnasium as gym
import numpy as np

from mrq.environments.making import Environment, make_environment
from mrq.environments.probing import describe_spaces, try_out
from mrq.environments.stepping import Environments
from mrq.errors import MRQError
from mrq.hyperparameters import Hyperparameters
from mrq.interface import Agent, Array
from mrq.randomness import Stream, generator
from mrq.training.compiling import compile_if_possible, worth_compiling
from mrq.training.devices import chosen_device, overlaps, set_precision
from mrq.training.environments import EVALUATED_AT_ONCE, guarded
from mrq.training.evaluation import choose_actions
from mrq.training.loop import save
from mrq.training.population import Population
from mrq.training.run_folder import DOCUMENT, RunFolder, create_run_folder, identity, occupied
from mrq.training.runs import load, make_room, train_runs
from mrq.training.settings import Precision, Settings, Switch, checked_seeds

EnvironmentSource = str | Environment | Callable[[], Environment]


class MRQ:
    """An MR.Q agent.

    `env` is a Gymnasium id (or module:factory), an environment, or a function that makes one. Nothing needs tuning:
    `hyperparameters` are the paper's, and `seed` decides everything that is random.
    """

    def __init__(
        self,
        env: EnvironmentSource,
        *,
        seed: int = 0,
        hyperparameters: Hyperparameters | None = None,
        device: str = "auto",
        compile: Switch = Settings.compile,
        precision: Precision = Settings.precision,
        overlap: Switch = Settings.overlap,
    ) -> None:
        self.seed = checked_seeds((_whole(seed, "the seed"),))[0]
        self._source = env
        self._environment = environment = _make(env)
        self.task = _name(env, environment)
        environments = guarded([environment], Agent(self.task, self.seed))
        self._border = environments.environments[0].border
        self.observation_space, self.action_space = environment.observation_space, environment.action_space
        self._settings = Settings(
            steps=1,
            device=device,
            compile=compile,
            precision=precision,
            overlap=overlap,
            hyperparameters=hyperparameters or Hyperparameters(),
        ).completed([self.task])
        on = chosen_device(device)
        self._population = Population(
            [Agent(self.task, self.seed)],
            environments,
            self._settings.hyperparameters,
            on,
            set_precision(self._settings, on),
            overlaps(self._settings, on),
        )
        self._folder: Path | None = None  # where this agent's run is recorded
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
    ) -> Self:
        """Trains for `total_steps` more environment steps.

        `callback` is called after every step and stops the training by returning False. `evaluate_every` and
        `run_folder` do what they do on the command line: evaluations every so many steps, printed as they come, and
        a folder with evaluations.csv, TensorBoard events and checkpoints. Ctrl-C stops early and keeps what was
        learned.
        """
        more = _whole(total_steps, "total_steps")
        if more < 1:
            raise MRQError(f"total_steps is {more:,}; it must be 1 or more.")
        evaluate_every = _whole(evaluate_every, "evaluate_every")
        settings = replace(self._settings, steps=self.num_timesteps + more, evaluate_every=evaluate_every)
        evaluation_environments = self._evaluation_environments() if evaluate_every else None
        make_room(self._population, settings, lambda _: None)
        if not self._population.learner.compiled and worth_compiling(settings, self._population.device):
            compile_if_possible(self._population, print, required=settings.compile == "on")
        interrupted = train_runs(
            self._population,
            evaluation_environments,
            [] if run_folder is None else [self._recording_at(Path(run_folder).absolute(), settings)],
            settings,
            shown=progress_bar or evaluate_every > 0,
            on_step=None if callback is None else lambda: callback(self),
        )
        if interrupted.number == signal.SIGTERM:
            signal.raise_signal(signal.SIGTERM)  # all is saved; the rest is the program's own affair
        return self

    def predict(
        self,
        observation: Any,
        state: Array | None = None,
        episode_start: Array | None = None,
        deterministic: bool = False,
    ) -> tuple[Any, Array | None]:
        """The action for one observation, or the actions for a batch, and the state to pass in with the next.

        The state is the history of frames that image observations need, and None for vectors. Continuous actions
        have no noise either way; discrete ones are drawn from the policy unless `deterministic`.
        """
        border = self._border
        frames, batched = border.frames(observation)
        histories = np.repeat(frames[:, None], border.spec.history, 1)  # (count, history, *frame_shape)
        if state is not None:
            goes_on = ~np.asarray(np.zeros(len(frames)) if episode_start is None else episode_start, bool)
            histories[goes_on, :-1] = state[goes_on, 1:]
        chosen = choose_actions(
            self._population.learner, histories[None], [self._prediction] * len(frames), deterministic
        )[0]
        actions = [border.action(action) for action in chosen]
        return np.stack(actions) if batched else actions[0], histories if border.spec.history > 1 else None

    def save(self, path: str | Path) -> None:
        """Writes a run folder with a complete checkpoint: `MRQ.load`, `mrq evaluate` and `mrq resume` take it.

        Saving to the same path again replaces the checkpoint; what else the folder holds stays.
        """
        path = Path(path).absolute()
        run = self._open(path) if occupied(path) else self._create(path, self._settings)
        try:
            run.extend(max(run.settings.total_steps, self.num_timesteps))
            save(self._population, [run], [0])
        finally:
            run.close()

    @classmethod
    def load(cls, path: str | Path, env: EnvironmentSource | None = None, device: str = "auto") -> Self:
        """The agent saved or trained in a folder. Without `env`, its environment is made again from its id."""
        run = RunFolder(Path(path).absolute())
        run.refuse_baseline()
        _ = run.checkpoint  # there must be one
        try:
            source = make_environment(run.task) if env is None else env
        except MRQError as error:
            raise MRQError(f"pass the agent's environment as env=…, for it cannot be made again: {error}") from None
        agent = cls(
            source,
            seed=run.seed,
            hyperparameters=run.settings.hyperparameters,
            device=device,
            compile=run.settings.compile,
            precision=run.settings.precision,
            overlap=run.settings.overlap,
        )
        run.check_spaces(describe_spaces(agent._environment))
        agent._folder = run.path
        agent._is_called(run.task)
        if env is None:
            agent._source = run.task
        load(agent._population, 0, run, run.saved_state(), print)
        return agent

    def _is_called(self, task: str) -> None:
        """As the run is whose agent this was, whatever its environment is called now."""
        self.task = task
        self._settings = replace(self._settings, evaluate_every=None).completed([task])
        me = Agent(task, self.seed)
        self._population.agents, self._population.environments.names = [me], [me.name]

    def _recording_at(self, path: Path, settings: Settings) -> RunFolder:
        """The folder that `learn` records to: a new one, or this agent's own."""
        if path != self._folder:
            run = self._create(path, settings)
            self._folder = path
            return run
        run = self._open(path)
        run.extend(settings.total_steps)
        run.rewind(self._population.evaluated_at)
        return run

    def _create(self, path: Path, settings: Settings) -> RunFolder:
        steps = max(settings.total_steps, self.num_timesteps)
        learner, spaces = self._population.learner, describe_spaces(self._environment)
        settings = replace(settings, steps=steps)
        return create_run_folder(
            path, self.task, self.seed, settings, learner.compiled, spaces, learner.parameters_of(0)
        )

    def _open(self, path: Path) -> RunFolder:
        if not (path / DOCUMENT).exists():
            raise MRQError(f"{path} exists and is not a run folder; choose another path.")
        run = RunFolder(path)
        if run.identity != identity(self.task, self.seed, self._settings.hyperparameters):
            raise MRQError(f"{path} holds a run of another task, seed or hyperparameters; choose another path.")
        run.lock()
        return run

    def _evaluation_environments(self) -> Environments:
        """Environments of their own for evaluation, made as the agent's was."""
        count = min(self._settings.evaluation_episodes, EVALUATED_AT_ONCE)
        if isinstance(self._source, gym.Env):
            if self._source.spec is None:
                raise MRQError(
                    "evaluations need an environment of their own: give MRQ an id, or a function that makes one."
                )
            made = [gym.make(self._source.spec) for _ in range(count)]
        else:
            made = [_make(self._source) for _ in range(count)]
        if len({id(environment.unwrapped) for environment in (*made, self._environment)}) <= count:
            raise MRQError(
                "evaluations need environments of their own: the function must make a new one at every call."
            )
        environments = guarded(made, Agent(self.task, self.seed))
        try_out(environments.environments[0], self.task)
        return environments


def _make(source: EnvironmentSource) -> Environment:
    if isinstance(source, gym.Env):
        return source
    if not isinstance(source, str) and not callable(source):
        raise MRQError(
            f"MRQ was given {type(source).__name__}; it takes a Gymnasium id, one gymnasium.Env (no vector of them), "
            "or a function that makes one."
        )
    environment = make_environment(source) if isinstance(source, str) else source()
    if not isinstance(environment, gym.Env):
        raise MRQError(f"the function gave {type(environment).__name__} where a gymnasium.Env was expected.")
    return environment


def _name(source: EnvironmentSource, environment: Environment) -> str:
    if isinstance(source, str):
        return source
    return type(environment.unwrapped).__name__ if environment.spec is None else environment.spec.id


def _whole(number: int, name: str) -> int:
    try:
        return operator.index(number)  # NumPy's integers too
    except TypeError:
        raise MRQError(f"{name} is {number!r}; it must be a whole number.") from None
