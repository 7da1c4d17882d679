"""The baselines by the name that `mrq bench --algorithm` takes. A new one is a file of its own and a line here."""

from mrq.baselines.baseline import Kind
from mrq.baselines.stable_baselines import DQN, PPO, SAC, TD3
from mrq.errors import MRQError

KINDS = {kind.name.lower(): kind for kind in (PPO, TD3, SAC, DQN)}


def kind_named(name: str) -> Kind | None:
    """By its name in folders and reports; None for MR.Q and its variants."""
    return KINDS.get(name.lower())


def kind_of(algorithm: str) -> Kind:
    if algorithm not in KINDS:
        raise MRQError(f"there is no algorithm {algorithm!r}; there are mrq, {', '.join(KINDS)}.")
    return KINDS[algorithm]
