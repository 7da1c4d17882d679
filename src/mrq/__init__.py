"""MR.Q: one reinforcement-learning algorithm, one set of hyperparameters, any Gymnasium environment."""

from typing import TYPE_CHECKING

from mrq.errors import MRQError
from mrq.hyperparameters import Hyperparameters
from mrq.version import __version__

if TYPE_CHECKING:
    from mrq.agent import MRQ
else:

    def __getattr__(name: str) -> type:
        """MRQ only when it is asked for: the processes that step environments do without PyTorch."""
        if name != "MRQ":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from mrq.agent import MRQ

        return MRQ


__all__ = ["MRQ", "Hyperparameters", "MRQError", "__version__"]
