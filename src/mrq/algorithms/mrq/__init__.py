"""MR.Q (Fujimoto et al., ICLR 2025): model-free, with a representation learned by model-based objectives."""

from mrq.algorithms.algorithm import Algorithm, Learner, Setup
from mrq.algorithms.mrq.hyperparameters import SMALL_WIDTH, Hyperparameters
from mrq.algorithms.mrq.presets import PRESETS
from mrq.algorithms.mrq.variants import VARIANTS

SECONDS_OF_COMPILING = 50.0  # on two cores; benchmarks/speed.md has what it saves


def _updates_worth_compiling(h: Hyperparameters) -> float:
    """Returns how many updates repay compiling on a CPU: the larger they are, the more each of them saves."""
    of_calls = 0.005 if h.hidden_width <= SMALL_WIDTH else 0.010
    seconds_saved = of_calls + 0.0034 * h.batch_size * h.hidden_width / 128**2
    return SECONDS_OF_COMPILING / seconds_saved


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
    updates_worth_compiling=_updates_worth_compiling,
    presets=PRESETS,
)
