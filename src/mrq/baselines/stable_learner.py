"""One agent of Stable-Baselines3 as a learner."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from typing import Any

import numpy as np
import stable_baselines3
import torch
from torch import Tensor

from mrq.algorithms.algorithm import Carried, Learner, Setup
from mrq.algorithms.observed import Unpacked
from mrq.baselines.turns import LibraryThread, Outcome, RemoteEnvironment
from mrq.errors import MRQError, one_line
from mrq.execution import Work
from mrq.interface import Array, Transitions

LARGEST_REPLAY = 1_000_000  # Stable-Baselines3's default


class StableLearner(Learner):
    """An agent whose acting, learning and replay are the library's."""

    works: Sequence[Work] = ()
    period = 250

    def __init__(self, setup: Setup, title: str) -> None:
        (self._identity,), (self._spec,) = setup.identities, setup.specs
        self.specs, self.device, self._exchange = setup.specs, setup.device, setup.exchange
        self._library, self._has_replay = getattr(stable_baselines3, title), title != "PPO"
        self._environment = RemoteEnvironment(self._spec)
        self._thread = LibraryThread(self._environment)
        self._total_steps = 1
        self._made: Any = None  # the library's model, made when it is first needed
        self._state = self._seen()  # the latest that the library knows
        self._outcome: Outcome | None = None  # of that action, until the library knows it

    @property
    def metrics(self) -> Mapping[str, Tensor]:
        return {}

    def expect(self, total_steps: int) -> None:
        self._total_steps = max(self._total_steps, total_steps)
        if self._made is not None and self._has_replay:
            self._grow_replay()

    def explore(self, step: int) -> None:
        self._tell_outcome()
        self._state = self._seen()
        action = np.asarray(self._thread.action(self._state, partial(_learn, self._model, self._total_steps)))
        self._exchange.actions.copy_(self._as_vectors(action[None])[None])

    def begin(self, which: Array) -> None:
        self._tell_outcome()
        if self._thread.wants_outcome:  # the last episode was left in the middle
            self._thread.tell(Outcome(self._state, 0.0, terminated=False, truncated=True))

    def observe(self, step: Transitions) -> None:
        if not self._thread.wants_outcome:  # the action was chosen before the checkpoint that was loaded
            return
        terminated, truncated = bool(step.terminated[0]), bool(step.truncated[0])
        self._outcome = Outcome(self._seen(), float(step.rewards[0]), terminated, truncated)

    def update(self, steps: int, interrupted: Callable[[], bool]) -> None:
        self._tell_outcome()

    def act(self, states: Tensor, generators: Sequence[np.random.Generator] | None, carried: Carried) -> Tensor:
        """Acts as the library does without exploration."""
        actions, _ = self._model.predict(states[0].cpu().numpy(), deterministic=True)
        return self._as_vectors(actions)[None]

    def choose(self, states: Tensor | Unpacked, gumbel: Tensor | None, carried: Carried) -> Tensor:
        raise MRQError(
            "policies of Stable-Baselines3 cannot be exported by mrq; that library has an export of its own."
        )

    def parameters_of(self, agent: int) -> int:
        return sum(p.numel() for p in self._model.policy.parameters() if p.requires_grad)

    def state_of(self, agent: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Returns the bytes of the library's own files."""
        files, counters = self.policy_of(agent)
        if self._has_replay:
            files["replay"] = _written(self._model.save_replay_buffer)
        return files, counters

    def load_state_of(self, agent: int, tensors: Mapping[str, Array | Tensor], counters: Mapping[str, Any]) -> None:
        self.load_policy_of(agent, tensors, counters)
        if self._has_replay:
            with self._reading():
                self._made.load_replay_buffer(_readable(tensors["replay"]))
        self.expect(self._total_steps)

    def policy_of(self, agent: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {"model": _written(self._model.save)}, {}

    def load_policy_of(self, agent: int, tensors: Mapping[str, Array | Tensor], counters: Mapping[str, Any]) -> None:
        with self._reading():
            self._made = self._library.load(_readable(tensors["model"]), self._environment, device=self.device)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise MRQError(
                f"Stable-Baselines3 cannot read the checkpoint of {self._identity.name} ({one_line(error)}); install "
                "the version that is named in the run's run.json."
            ) from error

    @property
    def _model(self) -> Any:
        if self._made is None:
            policy = "CnnPolicy" if self._spec.images else "MlpPolicy"
            options = {"buffer_size": self._replay_size} if self._has_replay else {}
            seed = self._identity.seed % 2**32
            self._made = self._library(policy, self._environment, seed=seed, device=self.device, **options)
        return self._made

    @property
    def _replay_size(self) -> int:
        """What the replay will hold, up to the library's default."""
        return min(LARGEST_REPLAY, self._total_steps)

    def _grow_replay(self) -> None:
        if self._made.buffer_size < self._replay_size:
            self._made.replay_buffer = grown(self._made.replay_buffer, self._replay_size)
            self._made.buffer_size = self._replay_size

    def _tell_outcome(self) -> None:
        """Lets the library learn from the last step, unless it did."""
        if self._outcome is not None:
            outcome, self._outcome = self._outcome, None
            self._state = outcome.state
            self._thread.tell(outcome)

    def _seen(self) -> Array:
        """Copies what the agent sees now."""
        return self._exchange.observations[0].numpy().reshape(self._spec.state_shape).copy()

    def _as_vectors(self, actions: Array) -> Tensor:
        """Turns the library's actions, which are numbers where they are choices, into (count, action_size)."""
        if choices := self._spec.choices:
            chosen = actions.reshape(-1, len(choices))
            actions = np.concatenate([np.eye(size)[chosen[:, place]] for place, size in enumerate(choices)], 1)
        return torch.from_numpy(actions.astype(np.float32))


def _learn(model: Any, total_steps: int) -> None:
    """Lets the library learn up to `total_steps`, or for one step more where an action is chosen ahead of time."""
    model.learn(max(1, total_steps - model.num_timesteps), reset_num_timesteps=False)


def grown(replay: Any, size: int) -> Any:
    """Returns a larger replay that holds the same, the oldest first."""
    oldest_first = np.roll(np.arange(replay.buffer_size), -replay.pos) if replay.full else np.arange(replay.pos)
    larger = type(replay)(size, replay.observation_space, replay.action_space, replay.device, replay.n_envs)
    for name in ("observations", "next_observations", "actions", "rewards", "dones", "timeouts"):
        getattr(larger, name)[: len(oldest_first)] = getattr(replay, name)[oldest_first]
    larger.pos = len(oldest_first)
    return larger


def _written(save: Callable[[BytesIO], None]) -> Tensor:
    file = BytesIO()
    save(file)
    return torch.frombuffer(file.getbuffer(), dtype=torch.uint8)


def _readable(file: Array | Tensor) -> BytesIO:
    return BytesIO(np.asarray(file).data)
