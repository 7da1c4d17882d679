"""P agents in training: their environments, replay, learner and counters, one environment step or update at a time.

Every agent takes a step whenever one does. Agent i does what its seed does alone.
"""

import gc
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch

from mrq.algorithm.learner import ENCODER_LOSSES, METRICS, Learner
from mrq.algorithm.networks import Parameters
from mrq.algorithm.noise import acting_noise, encoder_noise, value_noise
from mrq.environments.stepping import EnvironmentFault
from mrq.environments.workers import AnyEnvironments
from mrq.errors import MRQError
from mrq.execution import HIGH_PRIORITY, Captured, OnFailure, Side
from mrq.hyperparameters import Hyperparameters
from mrq.interface import Agent, Array
from mrq.randomness import Stream, environment_seed, generator
from mrq.replay.buffer import Replay, slots_needed
from mrq.training.noise_blocks import Draw, NoiseBlocks

COUNTERS = ("steps", "encoder_updates", "updates", "evaluated_at")


class LossFault(MRQError):
    """A loss is no longer a number; the last checkpoint is still sound."""


class Population:
    def __init__(
        self,
        agents: Sequence[Agent],
        environments: AnyEnvironments,
        hyperparameters: Hyperparameters,
        device: torch.device,
        dtype: torch.dtype = torch.float32,  # in which matrices are multiplied
        overlap: bool = False,
    ) -> None:
        specs, h, period = environments.specs, hyperparameters, hyperparameters.target_period
        self.agents, self.environments, self.hyperparameters, self.device = agents, environments, h, device
        seeds = [agent.seed for agent in agents]
        # Deviation: with `overlap` an action is chosen before the update that the step before it calls for rather than
        # after it, so that the environments step while the device updates; in the first third of a target period, by
        # the target networks, so that they do so during the period's encoder updates too.
        self.overlap = overlap
        self._lead = h.target_period // 3 if overlap and h.model_based else 0
        generators = [generator(seed, Stream.PARAMETERS) for seed in seeds]
        self.learner = Learner(specs, h, generators, device, dtype)
        self.replay = Replay(specs, h, slots_needed(0, h), device, self._lead)

        ahead = ThreadPoolExecutor(max_workers=1)

        def blocks(stream: Stream, draw: Draw) -> NoiseBlocks:
            return NoiseBlocks(seeds, specs, stream, period, draw, device, ahead)

        self._acting = blocks(Stream.ACTING, lambda g, spec: acting_noise(g, period, spec))
        self._encoder = blocks(Stream.ENCODER_UPDATES, lambda g, spec: encoder_noise(g, period, spec, h))
        self._value = blocks(Stream.VALUE_UPDATES, lambda g, spec: value_noise(g, period, spec, h))
        on_gpu = device.type == "cuda"
        spec = environments.spec
        # What each agent sees now, which the device's replay may not hold yet. The device reads it where it is.
        seen = (len(seeds), spec.history, *spec.frame_shape)
        self._seen = torch.zeros(seen, dtype=self.replay.frames.dtype, pin_memory=on_gpu)
        self._history = self._seen.numpy()
        self._beside = Side(device, HIGH_PRIORITY)
        self._explored = torch.zeros(len(seeds), spec.action_size, pin_memory=on_gpu)  # the policy's
        self._exploring = torch.cuda.Event() if on_gpu else None

        self.on_fault: Callable[[int, MRQError], None] = _raise  # told of an agent that cannot go on; the others do
        self.active = np.ones(len(seeds), bool)
        self.steps = 0  # environment steps taken, by each agent
        self.encoder_updates = 0
        self.updates = 0  # of value and policy
        self.evaluated_at = -1  # the step of the last evaluation
        self.seconds = np.zeros(len(seeds))  # that training has taken so far
        self.episodes = np.zeros(len(seeds), int)  # begun
        self.over = np.ones(len(seeds), bool)  # the next step begins an episode
        self.episode_returns = np.zeros(len(seeds))
        self.actions = np.zeros(self._explored.shape, np.float32)
        self.chosen = np.zeros(len(seeds), bool)  # `actions` holds the next step's already
        self._awaited = False  # … or will, once the device has come to it
        self._on_failure: OnFailure | None = None  # of compiling

    def make_room(self, total_steps: int) -> None:
        """Lets the replay hold what training up to `total_steps` will bring."""
        slots = slots_needed(total_steps, self.hyperparameters)
        if slots > self.replay.slots:
            self.replay = self.replay.grown(slots)
            gc.collect()  # the old one is captured by itself and would keep its memory
            if self._on_failure is not None:
                self._compile_replay(self._on_failure)

    def compile(self, on_failure: OnFailure, on_success: Callable[[], None] = lambda: None) -> None:
        """From now on, runs updates compiled and, on a GPU, captured whole; as they are where that fails."""
        self._on_failure = on_failure
        self.learner.compile(on_failure, on_success)
        self._capture("_explore", on_failure)
        self._capture("_explore_by_targets", on_failure, HIGH_PRIORITY)
        self._compile_replay(on_failure)

    def _compile_replay(self, on_failure: OnFailure) -> None:
        self.replay.compile(on_failure)
        self._capture("_update_encoder", on_failure)
        self._capture("_update_value_and_policy", on_failure)

    def _capture(self, name: str, on_failure: OnFailure, priority: int = 0) -> None:
        if self.device.type == "cuda":
            setattr(self, name, Captured(partial(getattr(Population, name), self), on_failure, priority))

    def step(self) -> dict[int, float]:
        """One environment step of every agent; the returns of the episodes it ended, by agent."""
        self._choose()
        self._await_actions()
        step = self.environments.step(self.active, self.actions, self.steps)

        def again(agents: Array) -> None:
            repeated = self.environments.step(agents, self.actions, self.steps)
            for ours, theirs in zip(step[1:], repeated[1:], strict=True):
                ours[agents] = theirs[agents]

        self._recover(again)
        self._drop_failed()
        self.replay.append(step)
        self._history[:, :-1] = self._history[:, 1:]
        self._history[:, -1] = step.next_frames
        self.steps += 1
        self.chosen[:] = False
        self.episode_returns += step.rewards
        self.over = (step.terminated | step.truncated) & self.active
        returns = {int(agent): float(self.episode_returns[agent]) for agent in np.flatnonzero(self.over)}
        if self.overlap:
            self._choose()
        return returns

    def update(self, interrupted: Callable[[], bool]) -> None:
        """The updates that the steps taken call for: one a step since training began.

        Where a target period begins, the targets are synchronised and the period's encoder updates done in a row. That
        takes a while on a small machine, so it breaks off between two chunks if `interrupted`; called again, here or
        in a resumed run, it goes on from there.
        """
        h = self.hyperparameters
        while self.updates < self.steps - h.random_steps:
            period_end = (self.updates // h.target_period + 1) * h.target_period
            while self.encoder_updates < period_end:
                if interrupted():
                    return
                self._burst(min(self.learner.chunk, period_end - self.encoder_updates))
            self._value.seek(self.updates)
            self._update_value_and_policy()
            self.updates += 1
            # Looking at a loss waits for a GPU. What is no number stays none, so it need not be done at once.
            if self.device.type == "cpu" or self.updates % h.target_period == 0:
                self.check_losses()

    def _burst(self, count: int) -> None:
        """A part of the encoder updates that a target period begins with."""
        if self.encoder_updates % self.hyperparameters.target_period == 0:
            self._begin_period()
        if self.hyperparameters.model_based:
            self._encoder.seek(self.encoder_updates)
            if count == self.learner.chunk:
                self._update_encoder()
            else:
                self._update_encoder_times(count)
        self.encoder_updates += count
        if self.device.type == "cpu":
            self.check_losses()

    def _begin_period(self) -> None:
        h = self.hyperparameters
        for agent in np.flatnonzero(self.active & ~self.replay.can_sample()).tolist():
            sentence = (
                f"{self.environments.names[agent]}: there is nothing to learn from after {self.steps:,} steps: every "
                f"episode was truncated before its {h.longest_horizon}th step; give it a longer time limit."
            )
            self.drop(agent, MRQError(sentence))
        self.learner.sync_targets(self.replay.mean_absolute_reward())
        self._beside.follow()

    # Work for the device alone, on tensors that stay where they are: this is what is captured.

    def _explore(self) -> None:
        self._explore_by(self.learner.networks)

    def _explore_by_targets(self) -> None:
        self._explore_by(self.learner.targets)

    def _explore_by(self, networks: dict[str, Parameters]) -> None:
        states = self._seen.to(self.device, non_blocking=True).flatten(1, 2)[:, None]
        actions = self.learner.explore(networks, states, self._acting.take(1))
        self._explored.copy_(actions[:, 0], non_blocking=True)

    def _update_encoder(self) -> None:
        self._update_encoder_times(self.learner.chunk)

    def _update_encoder_times(self, count: int) -> None:
        noise = {name: tensor.flatten(1, 2) for name, tensor in self._encoder.take(count).items()}
        windows = self.replay.sample(noise.pop("sample"), range(self.hyperparameters.encoder_horizon + 1))
        self.learner.update_encoder(windows, noise, self.replay.terminated_before)

    def _update_value_and_policy(self) -> None:
        noise = {name: tensor[:, 0] for name, tensor in self._value.take(1).items()}
        windows = self.replay.sample(noise.pop("sample"), (0, self.hyperparameters.value_horizon))
        td_errors = self.learner.update_value_and_policy(windows, noise)
        if self.hyperparameters.prioritised:
            self.replay.priorities.update(windows.slots, td_errors)

    def metrics(self, agent: int) -> dict[str, float]:
        learner = self.learner
        values = dict(zip(METRICS, learner.metrics[agent].tolist(), strict=True))
        return values | {"reward_scale": float(learner.reward_scale[agent])}

    def state_of(self, agent: int) -> tuple[dict[str, torch.Tensor], dict[str, Array], dict[str, Any]]:
        """One agent's tensors, replay arrays and counters: all it needs to go on, alone or beside others."""
        self._await_actions()
        tensors = self.learner.state_of(agent)
        if not all(tensor.isfinite().all() for tensor in tensors.values()):
            raise LossFault(
                f"{self.environments.names[agent]}: the networks hold NaN at step {self.steps:,}, so nothing was saved."
            )
        own = self.environments.specs[agent]
        arrays, replay_counters = self.replay.state_of(agent)
        counters: dict[str, Any] = {name: getattr(self, name) for name in COUNTERS}
        counters |= {
            "seconds": float(self.seconds[agent]),
            "episodes": int(self.episodes[agent]),
            "over": bool(self.over[agent]),
            "episode_return": float(self.episode_returns[agent]),
            "next_action": self.actions[agent, : own.action_size].tolist() if self.chosen[agent] else None,
            "replay": replay_counters,
        }
        return tensors, arrays, counters

    def load_state_of(
        self, agent: int, tensors: dict[str, torch.Tensor], arrays: dict[str, Array], counters: dict[str, Any]
    ) -> str | None:
        """Takes up what `state_of` gave; a sentence where the environment could not be brought back to its place."""
        self.make_room(counters["steps"])
        self.learner.load_state_of(agent, tensors)
        self.replay.load_state_of(agent, arrays, counters["replay"])
        for name in COUNTERS:
            setattr(self, name, counters[name])
        self.seconds[agent] = counters["seconds"]
        self.episodes[agent] = counters["episodes"]
        self.over[agent] = counters["over"]
        self.episode_returns[agent] = counters["episode_return"]
        self._history[agent] = self.replay.present_state(agent)
        self._beside.follow()
        if counters["next_action"] is not None:
            action = counters["next_action"]
            self.actions[agent, : len(action)], self.chosen[agent] = action, True
        if self.over[agent] or self._bring_back(agent):
            return None
        self.begin_anew(agent)
        return (
            f"{self.environments.names[agent]}: playing the episode again did not lead to the same observation; "
            "a new episode begins."
        )

    def begin_anew(self, agent: int) -> None:
        """Leaves the episode under way, as if it had been truncated here."""
        self._await_actions()
        self.over[agent], self.chosen[agent] = True, False

    def drop(self, agent: int, fault: MRQError) -> None:
        """Leaves an agent behind; its place goes on being computed, for nothing."""
        if self.active[agent]:
            self.active[agent] = False
            self.on_fault(agent, fault)  # which may save it, and whether its episode is over
            self.over[agent] = False

    def _bring_back(self, agent: int) -> bool:
        """Plays an environment's episode again up to here; False where that does not lead to the same observation."""
        seed = environment_seed(self.agents[agent].seed, int(self.episodes[agent]) - 1)
        actions = self.replay.episode_actions(agent)
        frame = None if actions is None else self.environments.replay_episode(agent, seed, actions)
        return frame is not None and np.array_equal(frame, self._history[agent, -1])

    def _recover(self, again: Callable[[Array], None]) -> None:
        """Where environments lost their process by another's fault, brings them back and has them try `again`."""
        while self.environments.restarted:
            agents = np.zeros(len(self.agents), bool)
            agents[list(self.environments.restarted)] = True
            self.environments.restarted.clear()
            for agent in np.flatnonzero(agents & ~self.over).tolist():
                if not self._bring_back(agent):
                    self.environments.failed.setdefault(
                        agent,
                        f"the environment of {self.environments.names[agent]} lost its process to another's fault at "
                        f"step {self.steps:,}, and playing its episode again did not lead to the same observation.",
                    )
            again(agents)

    def _choose(self) -> None:
        """Has the actions of the next step chosen, of those agents that have none yet."""
        if self._awaited or self.chosen.all():
            return
        if self.over.any():
            self._begin_episodes()
        if self.steps < self.hyperparameters.random_steps:
            place = self._acting.seek(self.steps)
            self._take_actions(self._acting.host["random_actions"][:, place].numpy())
            return
        leads = self._leads()
        with self._beside.work() if leads else nullcontext():
            self._acting.seek(self.steps)
            (self._explore_by_targets if leads else self._explore)()
            if self._exploring is not None:
                self._exploring.record()
        self._awaited = True

    def _leads(self) -> bool:
        """Whether the target networks choose the next action.

        Not a period's first: that is chosen before they are synchronised, by the networks that they are to become.
        """
        updates = self.steps - self.hyperparameters.random_steps - 1  # called for before the last step
        return 0 < updates % self.hyperparameters.target_period < self._lead

    def _await_actions(self) -> None:
        if self._awaited:
            if self._exploring is not None:
                self._exploring.synchronize()
            self._take_actions(self._explored.numpy())
            self._awaited = False

    def _take_actions(self, actions: Array) -> None:
        self.actions[~self.chosen] = actions[~self.chosen]
        self.chosen[:] = True

    def _drop_failed(self) -> None:
        for agent, sentence in self.environments.failed.items():
            self.drop(agent, EnvironmentFault(sentence))

    def _begin_episodes(self) -> None:
        begun = zip(self.agents, self.episodes.tolist(), strict=True)
        seeds = [environment_seed(agent.seed, episodes) for agent, episodes in begun]
        frames = self.environments.reset(self.over, seeds, self.steps)

        def again(agents: Array) -> None:
            beginning = agents & self.over
            frames[beginning] = self.environments.reset(beginning, seeds, self.steps)[beginning]

        self._recover(again)
        self._drop_failed()
        self.replay.begin(self.over, frames)
        self._history[self.over] = frames[self.over][:, None]
        self.episodes[self.over] += 1
        self.episode_returns[self.over] = 0
        self.over[:] = False

    def check_losses(self) -> None:
        finite = torch.isfinite(self.learner.metrics).cpu().numpy()
        for agent in np.flatnonzero(self.active & ~finite.all(1)).tolist():
            metric = int(np.flatnonzero(~finite[agent])[0])
            kind = "encoder" if METRICS[metric] in ENCODER_LOSSES else "RL"
            sentence = (
                f"{self.environments.names[agent]}: the {METRICS[metric].replace('_', ' ')} became "
                f"{float(self.learner.metrics[agent, metric])} at step {self.steps:,} ({kind} update); "
                "nothing was saved after that. Look for extreme rewards or observations, or hyperparameters far from "
                "the paper's."
            )
            self.drop(agent, LossFault(sentence))


def _raise(agent: int, fault: MRQError) -> None:
    raise fault
