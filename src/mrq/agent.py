"""MRQ: an agent in Python, with Stable-Baselines3's conventions for learn, predict, save and load."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import gymnasium as gym
import numpy as np
import torch

from mrq.algorithm.noise import gumbel
from mrq.environments.making import Environment, make_environment
from mrq.environments.workers import Environments
from mrq.errors import MRQError
from mrq.hyperparameters import Hyperparameters
from mrq.interface import Array
from mrq.randomness import Stream, generator
from mrq.training.checkpoint import write_checkpoint
from mrq.training.compiling import compile_if_possible, worth_compiling
from mrq.training.interruption import Interruption
from mrq.training.loop import train
from mrq.training.population import Population
from mrq.training.progress import ProgressBar
from mrq.training.run_folder import RunFolder, create_run_folder
from mrq.training.runs import describe_spaces, guarded, load, make_room, probe
from mrq.training.settings import Settings, checked_seeds, chosen_device

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
        compile: Literal["auto", "on", "off"] = "auto",
    ) -> None:
        self._source = env
        environment = _make(env)
        self.task = _name(env, environment)
        self.seed = checked_seeds((seed,))[0]
        self.observation_space, self.action_space = environment.observation_space, environment.action_space
        self._border = guarded([environment], self.task, (seed,)).environments[0].border
        self._settings = Settings(
            steps=1, device=device, compile=compile, hyperparameters=hyperparameters or Hyperparameters()
        )
        self._population = Population(
            (seed,),
            guarded([environment], self.task, (seed,)),
            self._settings.hyperparameters,
            chosen_device(device),
        )
        self._run: RunFolder | None = None
        self._prediction = generator(seed, Stream.PREDICTION)

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
        `run_folder` do what they do on the command line: evaluations every so many steps, and a folder with
        evaluations.csv, TensorBoard events and checkpoints. Ctrl-C stops early and keeps what was learned.
        """
        if total_steps < 1:
            raise MRQError(f"total_steps is {total_steps:,}; it must be 1 or more.")
        settings = replace(self._settings, steps=self.num_timesteps + total_steps, evaluate_every=evaluate_every)
        evaluation_environments = self._evaluation_environments() if evaluate_every else None
        make_room(self._population, settings, lambda _: None)
        if worth_compiling(settings, self._population.device):
            compile_if_possible(self._population.learner, print, required=settings.compile == "on")
        run = None if run_folder is None else self._run_at(Path(run_folder), settings)
        label, period = f"{self.task}, seed {self.seed}", settings.hyperparameters.target_period
        with (
            ProgressBar(label, self.num_timesteps, settings.steps, period, progress_bar) as progress,
            Interruption() as interrupted,
        ):
            train(
                self._population,
                evaluation_environments,
                [] if run is None else [run],
                settings,
                progress,
                interrupted,
                None if callback is None else lambda: callback(self),
            )
        if run is not None:
            run.close()
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
        border, learner = self._border, self._population.learner
        frames, batched = border.frames(observation)
        histories = np.repeat(frames[:, None], border.spec.history, 1)  # (count, history, *frame_shape)
        if state is not None:
            goes_on = ~np.asarray(np.zeros(len(frames)) if episode_start is None else episode_start, bool)
            histories[goes_on, :-1] = state[goes_on, 1:]
        states = torch.from_numpy(histories.reshape(1, len(frames), *border.spec.state_shape)).to(learner.device)
        noise = {}
        if border.spec.discrete and not deterministic:
            drawn = gumbel(self._prediction, (1, len(frames), border.spec.action_size))
            noise["evaluation_gumbel"] = torch.from_numpy(drawn).to(learner.device)
        actions = [border.action(action) for action in learner.exploit(states, noise)[0].cpu().numpy()]
        return np.stack(actions) if batched else actions[0], histories if border.spec.history > 1 else None

    def save(self, path: str | Path) -> None:
        """Writes a run folder with a complete checkpoint: `MRQ.load`, `mrq evaluate` and `mrq resume` take it.

        Saving to the same path again replaces the checkpoint; what else the folder holds stays.
        """
        run = self._run_at(Path(path), replace(self._settings, steps=max(self.num_timesteps, 1)))
        write_checkpoint(run.checkpoints, *self._population.state_of(0))
        run.close()

    @classmethod
    def load(cls, path: str | Path, env: EnvironmentSource | None = None, device: str = "auto") -> Self:
        """The agent saved or trained in a folder. Without `env`, its environment is made again from its id."""
        run = RunFolder(Path(path))
        try:
            source = make_environment(run.task) if env is None else env
        except MRQError as error:
            raise MRQError(f"pass the agent's environment as env=…, for it cannot be made again: {error}") from None
        agent = cls(
            source,
            seed=run.seed,
            hyperparameters=run.settings.hyperparameters,
            device=device,
            compile="on" if run.compiled else "off",
        )
        if env is None:
            agent._source = agent.task = run.task
        _ = run.checkpoint  # there must be one
        load(agent._population, 0, run, lambda _: None)
        return agent

    def _run_at(self, path: Path, settings: Settings) -> RunFolder:
        """This agent's run folder at `path`, made if there is none."""
        if not path.exists():
            environment = self._population.environments.environments[0].environment
            compiled = self._population.learner.compiled
            return create_run_folder(path, self.task, self.seed, settings, compiled, describe_spaces(environment))
        run = RunFolder(path)
        mine = (self.task, self.seed, self._settings.hyperparameters)
        if (run.task, run.seed, run.settings.hyperparameters) != mine:
            raise MRQError(f"{path} holds a run of another task, seed or hyperparameters; choose another path.")
        run.lock()
        return run

    def _evaluation_environments(self) -> Environments:
        """An environment of its own for evaluation, made as the agent's was."""
        if isinstance(self._source, gym.Env):
            if self._source.spec is None:
                raise MRQError(
                    "evaluations need an environment of their own: give MRQ an id, or a function that makes one."
                )
            environment = gym.make(self._source.spec)
        else:
            environment = _make(self._source)
        environments = guarded([environment], self.task, (self.seed,))
        probe(environments)
        return environments


def _make(source: EnvironmentSource) -> Environment:
    if isinstance(source, gym.Env):
        return source
    environment = make_environment(source) if isinstance(source, str) else source()
    if not isinstance(environment, gym.Env):
        raise MRQError(f"the function gave {type(environment).__name__} where a gymnasium.Env was expected.")
    return environment


def _name(source: EnvironmentSource, environment: Environment) -> str:
    if isinstance(source, str):
        return source
    return type(environment.unwrapped).__name__ if environment.spec is None else environment.spec.id
