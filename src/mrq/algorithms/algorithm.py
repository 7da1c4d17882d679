"""What an algorithm is: everything that training, evaluation, checkpoints and reports need to know of one.

An algorithm is a package with an `Algorithm` in it, named in registry.py. Nothing else in mrq knows it by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from mrq.errors import MRQError
from mrq.interface import Array, Identity, ReplaySettings, Sampler, Spec, Transitions

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor

    from mrq.algorithms.observed import Unpacked
    from mrq.execution import Exchange, Work

DEFAULT_PRESET = "paper"
Carried = dict[str, "Tensor"]  # what agents carry from step to step within an episode: (agents, count, …); 0 is fresh


class Hyperparameters(Protocol):
    """A frozen dataclass whose fields, with their docstrings, are the algorithm's command-line flags."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def random_steps(self) -> int:
        """Environment steps before the first update; a field, if the algorithm begins with random actions."""

    @property
    def updates_per_step(self) -> float:
        """Updates that each environment step after the random ones calls for."""

    @property
    def replay(self) -> ReplaySettings:
        """What the algorithm asks of its replay."""


@dataclass(frozen=True)
class Setup:
    """What a learner is made from."""

    identities: Sequence[Identity]  # one per agent: its task and its seed
    specs: Sequence[Spec]  # one per agent; a fleet's agents may differ in size
    hyperparameters: Any  # the algorithm's own
    replay: Sampler
    exchange: Exchange  # where actions are chosen for what agents see
    device: torch.device
    dtype: torch.dtype  # in which matrices are multiplied
    overlap: bool  # environments step while the device updates: actions are chosen before the update, not after it
    copies: int  # environments of each agent


class Learner(Protocol):
    """P agents that learn: each has its own parameters, noise and counters, and equals its seed trained alone.

    Methods with a body here may be left as they are.
    """

    specs: Sequence[Spec]
    device: torch.device
    works: Sequence[Work]  # all device work: what is compiled, captured and timed
    period: int  # environment steps after which its work repeats, such as a target period

    @property
    def metrics(self) -> Mapping[str, Tensor]:
        """The latest losses and values by name, each (agents,)."""

    def update(self, steps: int, interrupted: Callable[[], bool]) -> None:
        """Does the updates that the first `steps` environment steps call for and that are not done yet.

        Long work may stop early where `interrupted` says so; the next call continues it.
        """

    def explore(self, step: int) -> None:
        """Chooses training actions for what agents see in their environments, both in the exchange.

        `step` is what each agent has taken so far, in all its environments together.
        """

    def act(self, states: Tensor, generators: Sequence[np.random.Generator] | None, carried: Carried) -> Tensor:
        """Returns evaluation actions (agents, count, action_size) for states (agents, count, *state_shape).

        `generators` draw what is random, one per state, agent after agent; None acts deterministically. What an
        episode carries is changed in place.
        """

    def choose(self, states: Tensor | Unpacked, gumbel: Tensor | None, carried: Carried) -> Tensor:
        """Does what `act` does, as tensor operations alone, so that a policy can be exported.

        `gumbel` (agents, count, action_size) is standard Gumbel noise with which choices are drawn; None acts
        deterministically. The default is for algorithms whose evaluation actions have no noise.
        """
        if gumbel is not None:
            raise MRQError("the evaluation actions of this algorithm have no noise to sample with; leave out --sample.")
        return self.act(cast("Tensor", states), None, carried)

    def carries(self, count: int) -> Carried:
        """Returns what `count` episodes of each agent carry from step to step when they begin: zeros."""
        return {}

    def begin(self, which: Array) -> None:
        """Is told in which environments (environments,), an agent's side by side, a training episode begins."""
        return None

    def observe(self, step: Transitions) -> None:
        """Is told what the latest step of every environment brought; the replay has it already."""
        return None

    def expect(self, total_steps: int) -> None:
        """Is told up to which step training is going to go."""
        return None

    def parameters_of(self, agent: int) -> int:
        """Returns how many numbers one agent learns."""

    def state_of(self, agent: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Returns all that one agent needs to continue: its own tensors, and counters.

        Agents can continue together if their counters are equal; what differs between agents belongs in the tensors.
        """

    def load_state_of(self, agent: int, tensors: Mapping[str, Array | Tensor], counters: Mapping[str, Any]) -> None:
        """Restores what `state_of` returned."""

    def policy_of(self, agent: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Returns that part of an agent's state that acting needs; by default all of it."""
        return self.state_of(agent)

    def load_policy_of(self, agent: int, tensors: Mapping[str, Array | Tensor], counters: Mapping[str, Any]) -> None:
        """Restores what `policy_of` or `state_of` returned, as far as acting needs it."""
        self.load_state_of(agent, tensors, counters)


@dataclass(frozen=True)
class Preset:
    """A named set of an algorithm's hyperparameters: one set for all tasks."""

    purpose: str  # one sentence
    changes: Mapping[str, Any] = field(default_factory=dict)  # hyperparameters that differ from the default ones
    without_gpu: str = ""  # what it gains on a machine without a GPU, if it is made for one; a sentence


@dataclass(frozen=True)
class Algorithm:
    """An algorithm: its names, its hyperparameters, what it can learn, and what makes its learner."""

    name: str  # on the command line
    title: str  # in run folders and reports
    hyperparameters: type[Any]  # a frozen dataclass; see Hyperparameters
    learner: Callable[[Setup], Learner]
    observations: tuple[str, ...] = ("vectors", "images")  # see kinds_of
    actions: tuple[str, ...] = ("continuous", "discrete")
    in_populations: bool = True  # False: one agent per process
    obeys_masks: bool = True  # it takes no action that the environment forbids
    unpickles: bool = False  # reading its checkpoints may run code that they hold
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # hyperparameters that each one changes
    updates_worth_compiling: Callable[[Any], float] = lambda hyperparameters: 1_500  # so many repay compiling on a CPU
    presets: Mapping[str, Preset] = field(
        default_factory=lambda: {DEFAULT_PRESET: Preset("The hyperparameters of the paper.")}
    )

    def obstacle(self, spec: Spec) -> str | None:
        """Says why it cannot learn a task, or returns None."""
        observations, actions = kinds_of(spec)
        if observations not in self.observations:
            return f"whose observations are {observations}"
        return None if actions in self.actions else f"whose actions are {actions}"

    def refuse(self, specs: Iterable[Spec], tasks: Iterable[str]) -> None:
        """Refuses tasks that it cannot learn."""
        for spec, task in zip(specs, tasks, strict=True):
            if obstacle := self.obstacle(spec):
                raise MRQError(f"{self.title} cannot learn {task}, {obstacle}; give tasks that it can.")

    def remarks(self, spec: Spec) -> list[str]:
        """Returns what a user may not expect of it on a task: one line each."""
        if not spec.masked or self.obeys_masks:
            return []
        return [f"{self.title} sees the masks of actions as part of the observation, but may take forbidden actions"]

    def varied(self, hyperparameters: Any, variant: str) -> Any:
        """Returns the hyperparameters with a variant's changes."""
        return replace(hyperparameters, **self.variants[variant])

    def preset(self, name: str) -> Any:
        """Returns the hyperparameters of a preset."""
        if name not in self.presets:
            raise MRQError(f"{self.title} has no preset {name!r}; it has {', '.join(self.presets)}.")
        return self.hyperparameters(**self.presets[name].changes)

    def closest_preset(self, hyperparameters: Any) -> tuple[str, dict[str, Any]]:
        """Returns the preset from which these hyperparameters differ least, and those that differ from it."""
        given = asdict(hyperparameters)

        def changes(preset: str) -> dict[str, Any]:
            theirs = asdict(self.preset(preset))
            return {name: value for name, value in given.items() if value != theirs[name]}

        return min(((name, changes(name)) for name in self.presets), key=lambda found: len(found[1]))

    def titled(self, preset: str) -> str:
        """Returns what reports call the algorithm with a preset."""
        return self.title if preset == DEFAULT_PRESET else f"{self.title} {preset}"

    def label(self, hyperparameters: Any) -> str:
        """Names these hyperparameters: the algorithm's title, with a preset, or a variant, and what was changed."""
        preset, changes = self.closest_preset(hyperparameters)
        if not changes:
            return self.titled(preset)
        own = f"{self.titled(preset)} with {', '.join(f'{name}={value}' for name, value in changes.items())}"
        if preset != DEFAULT_PRESET:
            return own
        return next((variant for variant, theirs in self.variants.items() if theirs == changes), own)

    def advice_without_gpu(self, hyperparameters: Any) -> list[str]:
        """Names the presets for machines without a GPU, if the default one is used: one line each."""
        if self.closest_preset(hyperparameters) != (DEFAULT_PRESET, {}):
            return []
        return [f"--preset {name}: {preset.without_gpu}" for name, preset in self.presets.items() if preset.without_gpu]


def kinds_of(spec: Spec) -> tuple[str, str]:
    """Returns the kinds of a task's observations and actions, as `Algorithm` names them."""
    observations = "several parts" if spec.packed else "images" if spec.images else "vectors"
    if not spec.choices:
        return observations, "continuous"
    if spec.continuous:
        return observations, "continuous and discrete"
    return observations, "discrete" if len(spec.choices) == 1 else "multi-discrete"
