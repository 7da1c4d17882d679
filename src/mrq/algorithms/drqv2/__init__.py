"""DrQ-v2 (Yarats et al., ICLR 2022): DDPG on images that are shifted at random, with multi-step returns."""

from mrq.algorithms.algorithm import Algorithm, Learner, Setup
from mrq.algorithms.drqv2.hyperparameters import Hyperparameters


def _learner(setup: Setup) -> Learner:
    from mrq.algorithms.drqv2.learner import DrQV2Learner  # it brings PyTorch, which reading a run does not need

    return DrQV2Learner(setup)


DRQV2 = Algorithm("drqv2", "DrQ-v2", Hyperparameters, _learner, observations=("images",), actions=("continuous",))
