"""MR.Q (Fujimoto et al., ICLR 2025): model-free, with a representation learned by model-based objectives."""

from mrq.algorithms.algorithm import Algorithm, Learner, Setup
from mrq.algorithms.mrq.hyperparameters import Hyperparameters
from mrq.algorithms.mrq.presets import PRESETS
from mrq.algorithms.mrq.variants import VARIANTS


def _learner(setup: Setup) -> Learner:
    from mrq.algorithms.mrq.learner import MRQLearner  # it brings PyTorch, which reading a run does not need

    return MRQLearner(setup)


MRQ = Algorithm(
    "mrq",
    "MR.Q",
    Hyperparameters,
    _learner,
    observations=("vectors", "images", "several parts"),
    actions=("continuous", "discrete", "multi-discrete", "continuous and discrete"),
    variants=VARIANTS,
    presets=PRESETS,
)
