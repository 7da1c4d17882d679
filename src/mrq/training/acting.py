"""Acting: what every agent sees, and its next action, which may be chosen ahead of time."""

import numpy as np

from mrq.algorithms.algorithm import Learner
from mrq.environments.history import FrameHistory
from mrq.execution import Exchange
from mrq.interface import Array


class Acting:
    """Chooses training actions. The device reads what agents see, and writes what they do, in the exchange."""

    def __init__(self, learner: Learner, exchange: Exchange) -> None:
        self._learner, self._exchange = learner, exchange
        self.history = FrameHistory(exchange.observations.numpy())  # (agents, history, *frame_shape)
        self._actions = np.zeros(exchange.actions.shape, np.float32)  # the next step's
        self._chosen = np.zeros(len(self._actions), bool)  # whose next action is known
        self._under_way = False  # the device is choosing

    @property
    def has_chosen(self) -> bool:
        """Whether the next step's actions are chosen, or the device is choosing them."""
        return self._under_way or bool(self._chosen.all())

    def choose(self, step: int) -> None:
        """Lets the next actions be chosen, of agents that have none yet; does not wait for the device."""
        self._learner.explore(step)
        self._under_way = True

    def actions(self) -> Array:
        """Returns the next step's actions (agents, action_size), as soon as the device has chosen them."""
        if self._under_way:
            self._exchange.wait_for_actions()
            self._actions[~self._chosen] = self._exchange.actions.numpy()[~self._chosen]
            self._chosen[:] = True
            self._under_way = False
        return self._actions

    def see(self, next_frames: Array) -> None:
        """Is told what the environments returned for these actions."""
        self.history.append(next_frames)
        self._chosen[:] = False

    def forget(self, agent: int) -> None:
        """Drops an agent's next action, since another episode begins."""
        self.actions()
        self._chosen[agent] = False

    def state_of(self, agent: int, action_size: int) -> list[float] | None:
        """Returns an agent's next action without padding, or None if it is still to be chosen."""
        actions = self.actions()
        return actions[agent, :action_size].tolist() if self._chosen[agent] else None

    def load_state_of(self, agent: int, frames: Array, action: list[float] | None) -> None:
        """Restores what an agent sees (history, *frame_shape), and its next action."""
        self.history.frames[agent] = frames
        if action is not None:
            self._actions[agent, : len(action)], self._chosen[agent] = action, True
