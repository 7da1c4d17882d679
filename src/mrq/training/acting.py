"""Acting: what agents see in every environment, and the next actions, which may be chosen ahead of time."""

import numpy as np

from mrq.algorithms.algorithm import Learner
from mrq.environments.history import FrameHistory
from mrq.execution import Exchange
from mrq.interface import Array, Transitions


class Acting:
    """Chooses training actions. The device reads what agents see, and writes what they do, in the exchange.

    Arrays of environments have an agent's side by side.
    """

    def __init__(self, learner: Learner, exchange: Exchange) -> None:
        self._learner, self._exchange = learner, exchange
        observations = exchange.observations.flatten(0, 1).numpy()  # (environments, history, *frame_shape)
        self.history = FrameHistory(observations)
        self._written = exchange.actions.flatten(0, 1).numpy()  # (environments, action_size), by the device
        self._actions = np.zeros_like(self._written)  # the next step's
        self._chosen = np.zeros(len(self._actions), bool)  # whose next action is known
        self._under_way = False  # the device is choosing

    @property
    def has_chosen(self) -> bool:
        """Whether the next step's actions are chosen, or the device is choosing them."""
        return self._under_way or bool(self._chosen.all())

    def choose(self, step: int) -> None:
        """Lets the next actions be chosen, where there is none yet; does not wait for the device."""
        self._learner.explore(step)
        self._under_way = True

    def actions(self) -> Array:
        """Returns the next step's actions (environments, action_size), as soon as the device has chosen them."""
        if self._under_way:
            self._exchange.wait_for_actions()
            self._actions[~self._chosen] = self._written[~self._chosen]
            self._chosen[:] = True
            self._under_way = False
        return self._actions

    def see(self, transitions: Transitions) -> None:
        """Is told what the environments returned for these actions."""
        self.history.append(transitions.next_frames)
        if transitions.began is not None:
            self.history.begin(transitions.began, transitions.next_frames)
        self._chosen[:] = False

    def forget(self, environments: slice) -> None:
        """Drops the next actions in these environments, since other episodes begin."""
        self.actions()
        self._chosen[environments] = False

    def next_action(self, environment: int, action_size: int) -> list[float] | None:
        """Returns the next action in an environment without padding, or None if it is still to be chosen."""
        actions = self.actions()
        return actions[environment, :action_size].tolist() if self._chosen[environment] else None

    def restore(self, environment: int, frames: Array, action: list[float] | None) -> None:
        """Restores what is seen in an environment (history, *frame_shape), and the next action there."""
        self.history.frames[environment] = frames
        if action is not None:
            self._actions[environment, : len(action)], self._chosen[environment] = action, True
