"""Contacts of the paper's tasks as its MuJoCo, 3.2, computes them, whatever version is installed."""

from typing import Any

import gymnasium as gym


class EarlierMargins(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """A Gym task that feels the ground from where it always did.

    Since MuJoCo 3.5 two geoms touch from the sum of their margins on; before, from the larger of the two. In Ant,
    Hopper and Humanoid, all of whose geoms have the same, that would double it; the other two have none. A wrapper
    that records its arguments, because then `gymnasium.make` makes the same task again from its spec.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        import mujoco

        major, minor, *_ = mujoco.__version__.split(".")
        if (int(major), int(minor)) >= (3, 5):
            self.get_wrapper_attr("model").geom_margin[:] /= 2


def keep_spinner_stiff(physics: Any) -> None:
    """Of dm_control's finger.

    Its spinner turns and cannot be shifted, so that its inverse weight is 0. MuJoCo 3.5 and 3.6 take that of turning
    instead, and a contact becomes 64 times too soft to turn it.
    """
    physics.named.model.body_invweight0["spinner", 0] = 0
