"""MR.Q: one reinforcement-learning algorithm, one set of hyperparameters, any Gymnasium environment."""

from mrq.agent import MRQ
from mrq.errors import MRQError
from mrq.hyperparameters import Hyperparameters
from mrq.version import __version__

__all__ = ["MRQ", "Hyperparameters", "MRQError", "__version__"]
