"""A check of hyperparameters that algorithms share; bounds of single ones are in mrq/bounds.py."""

from mrq.errors import MRQError


def check_start(random_steps: int, horizon: int) -> None:
    """Refuses to begin training before a single window can be sampled."""
    if random_steps < horizon:
        raise MRQError(
            f"random_steps is {random_steps}; training cannot begin before the "
            f"{horizon} steps of one window have been taken."
        )
