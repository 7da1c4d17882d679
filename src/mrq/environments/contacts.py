"""Makes newer MuJoCo versions compute contacts as the paper's, 3.2, does."""

from typing import Any

import gymnasium as gym


class EarlierMargins(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """A Gym task whose contacts begin at the same distance as in MuJoCo 3.2.

    Since MuJoCo 3.5, two geoms touch at the sum of their margins; before, at the larger one. In Ant, Hopper and
    Humanoid all geoms have the same margin, so the distance would double; the other two tasks have no margins. The
    wrapper records its arguments, so that `gymnasium.make` can make the same task again from its spec.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        import mujoco

        major, minor, *_ = mujoco.__version__.split(".")
        if (int(major), int(minor)) >= (3, 5):
            self.get_wrapper_attr("model").geom_margin[:] /= 2


def keep_spinner_stiff(physics: Any) -> None:
    """Restores the inverse weight of the spinner in dm_control's finger.

    The spinner turns but cannot move, so its translational inverse weight is 0. MuJoCo 3.5 and 3.6 use the rotational
    one instead, which makes contacts 64 times too soft to turn it.
    """
    physics.named.model.body_invweight0["spinner", 0] = 0
