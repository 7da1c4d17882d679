"""MR.Q: one reinforcement-learning algorithm, one set of hyperparameters, any Gymnasium environment."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mrq.algorithms.mrq.hyperparameters import Hyperparameters
from mrq.errors import MRQError
from mrq.version import __version__

if TYPE_CHECKING:
    from mrq.agent import MRQ
    from mrq.environments.making import make_environment
else:
    _LATER = {"MRQ": "mrq.agent", "make_environment": "mrq.environments.making"}

    def __getattr__(name: str) -> Any:
        """Imports these only when they are asked for: the processes that step environments do without PyTorch."""
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_LATER[name]), name)


__all__ = ["MRQ", "Hyperparameters", "MRQError", "__version__", "make_environment"]
