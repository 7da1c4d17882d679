"""MR.Q: one reinforcement-learning algorithm, one set of hyperparameters, any Gymnasium environment."""

import sys

from mrq.version import __version__

if sys.platform == "win32":
    raise ImportError("mrq runs on Linux and macOS; on Windows, use WSL.")

TYPE_CHECKING = False  # as in `typing`, which the program `mrq` imports only when signals can end it
if TYPE_CHECKING:
    from mrq.agent import MRQ
    from mrq.algorithms.mrq.hyperparameters import Hyperparameters
    from mrq.environments.making import make_environment
    from mrq.errors import MRQError
    from mrq.policy import Policy, load_policy
else:
    _LATER = {
        "MRQ": "mrq.agent",
        "Hyperparameters": "mrq.algorithms.mrq.hyperparameters",
        "MRQError": "mrq.errors",
        "Policy": "mrq.policy",
        "load_policy": "mrq.policy",
        "make_environment": "mrq.environments.making",
    }

    def __getattr__(name: str) -> object:
        """Imports these only when they are asked for: the processes that step environments do without PyTorch."""
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)


__all__ = ["MRQ", "Hyperparameters", "MRQError", "Policy", "__version__", "load_policy", "make_environment"]
