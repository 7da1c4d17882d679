"""How much noise actions have: its standard deviation falls linearly, faster for easy tasks than for hard ones."""

from torch import Tensor

from mrq.algorithms.drqv2.hyperparameters import Hyperparameters

# The paper's lists (its appendix A), and the environment steps over which its published runs reduce the noise.
EASY, MEDIUM, HARD = 100_000, 500_000, 2_000_000
DECAYS = {
    "ball_in_cup-catch": EASY,
    "cartpole-balance": EASY,
    "cartpole-balance_sparse": EASY,
    "cartpole-swingup": EASY,
    "finger-spin": EASY,
    "hopper-stand": EASY,
    "pendulum-swingup": EASY,
    "walker-stand": EASY,
    "walker-walk": EASY,
    "acrobot-swingup": MEDIUM,
    "cartpole-swingup_sparse": MEDIUM,
    "cheetah-run": MEDIUM,
    "finger-turn_easy": MEDIUM,
    "finger-turn_hard": MEDIUM,
    "hopper-hop": MEDIUM,
    "quadruped-run": MEDIUM,
    "quadruped-walk": MEDIUM,
    "reacher-easy": MEDIUM,
    "reacher-hard": MEDIUM,
    "walker-run": MEDIUM,
    "humanoid-run": HARD,
    "humanoid-stand": HARD,
    "humanoid-walk": HARD,
}


def decay_steps(task: str, h: Hyperparameters) -> int:
    """Returns the environment steps over which a task's noise falls. Tasks that the paper does not list are medium."""
    return h.exploration_decay or DECAYS.get(task.rpartition("/")[2], MEDIUM)


def standard_deviation(step: Tensor, decay: Tensor, h: Hyperparameters) -> Tensor:
    """Returns each agent's standard deviation (agents,) at an environment step (), given its decay (agents,)."""
    share = (step / decay).clamp(max=1)
    return (1 - share) * h.exploration_start + share * h.exploration_end
