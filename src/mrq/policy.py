"""A policy: what an agent does in its environment. It needs neither the environment nor what the agent learned from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from mrq import version
from mrq.algorithms.algorithm import Learner
from mrq.algorithms.registry import algorithm_of
from mrq.bounds import shown
from mrq.environments.actions import batched, given_mask
from mrq.environments.history import empty_history
from mrq.environments.spaces import Translator
from mrq.errors import MRQError
from mrq.interface import Array, Identity
from mrq.randomness import Stream, generator
from mrq.terminal import say
from mrq.training.building import build_learner
from mrq.training.devices import chosen_device, set_precision
from mrq.training.evaluation import choose_actions
from mrq.training.run_folder import RunFolder


class PredictionState(NamedTuple):
    """What `predict` is to remember of earlier steps."""

    frames: Array  # (count, history, *frame_shape)
    actions: Array  # (count, action_size), the latest
    carried: Mapping[str, Tensor]  # what the algorithm itself carries from step to step, (1, count, …) each


class Policy:
    """Chooses actions for observations as the environment has them. `load_policy` reads one from a run folder."""

    def __init__(
        self,
        identity: Identity,
        translator: Translator,
        learner: Learner,  # its only agent acts
        hyperparameters: Any,
        steps: int,  # environment steps that it was trained for
    ) -> None:
        self.task, self.seed = identity
        self.num_timesteps = steps
        self._hyperparameters = hyperparameters
        self.observation_space, self.action_space = translator.observation_space, translator.action_space
        self._translator, self._learner = translator, learner
        self._expects_masks = translator.spec.masked  # until predict has said that it is called without
        self._generator = generator(self.seed, Stream.PREDICTION)

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
        translator, learner = self._translator, self._learner
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
        history, carried = empty_history(count, translator.spec), learner.carries(count)
        if state is not None:
            if state.frames.shape != history.frames.shape:
                raise MRQError(
                    f"the state is not that of these observations: it has shape {state.frames.shape} instead of "
                    f"{history.frames.shape}; pass the one that predict returned with their last actions, or None."
                )
            history.frames[:] = state.frames
            for name, tensor in carried.items():
                tensor.copy_(state.carried[name])
                tensor[:, torch.from_numpy(first).to(tensor.device)] = 0
        history.append(frames)
        history.begin(np.ones(count, bool) if first is None else first, frames)
        generators = None if deterministic else [self._generator] * count
        chosen = choose_actions(learner, history.frames[None], generators, carried)[0]
        actions = [translator.action(action) for action in chosen]
        remembered = PredictionState(history.frames, chosen, carried) if translator.remembers or carried else None
        return batched(self.action_space, actions) if is_batch else actions[0], remembered

    def export(self, path: str | Path, sample: bool = False) -> None:
        """Writes the policy as a file that needs no mrq: .onnx, or .pt2 of PyTorch.

        It acts deterministically, or with `sample` draws its choices with noise that is an input. docs/export.md says
        what inputs and outputs there are.
        """
        from mrq.export.writing import write_policy  # it brings what only this needs

        metadata = {
            "mrq": version.__version__,
            "torch": torch.__version__,
            "algorithm": algorithm_of(self._hyperparameters).title,
            "task": self.task,
            "seed": str(self.seed),
            "steps": str(self.num_timesteps),
            "sampled": str(sample),
        }
        write_policy(Path(path).absolute(), self._translator, self._on_cpu(), sample, metadata)

    def _on_cpu(self) -> Learner:
        if self._learner.device.type == "cpu":
            return self._learner
        identity, specs = Identity(self.task, self.seed), self._learner.specs
        learner = build_learner([identity], specs, self._hyperparameters, torch.device("cpu"))
        learner.load_policy_of(0, *self._learner.policy_of(0))
        return learner


def load_policy(path: str | Path, device: str = "auto", trust: bool = False, best: bool = False) -> Policy:
    """The policy of the latest checkpoint in a run folder, without its environment and its replay.

    With `best`, it is that of the best evaluation. With `trust`, code that the folder brings may be run: the files of
    Stable-Baselines3's algorithms.
    """
    run = RunFolder(Path(path).absolute())
    run.refuse_unknown_algorithm()
    run.refuse_untrusted(trust, environment_is_given=True)  # none is made
    translator = run.translator()
    tensors, counters = run.saved_learner(say, best)
    on = chosen_device(device)
    dtype = set_precision(run.settings, on)
    learner = build_learner([run.identity], [translator.spec], run.settings.hyperparameters, on, dtype)
    with run.restoring():
        learner.load_policy_of(0, tensors, counters.get("learner", counters))
    return Policy(run.identity, translator, learner, run.settings.hyperparameters, counters["steps"])


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
