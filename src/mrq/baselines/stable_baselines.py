"""PPO, TD3, SAC and DQN from Stable-Baselines3, with its default hyperparameters, as algorithms."""

from dataclasses import dataclass

from mrq.algorithms.algorithm import DEFAULT_PRESET, Algorithm, Learner, Preset, Setup
from mrq.errors import MRQError
from mrq.interface import ReplaySettings

EPISODE = 2_000  # observations; the longest episodes of the suites, except for Atari's, have 1,001


@dataclass(frozen=True)
class Defaults:
    """Stable-Baselines3's default hyperparameters: there is nothing to set here."""

    @property
    def random_steps(self) -> int:
        """0, because the library itself decides when it begins to learn."""
        return 0

    @property
    def updates_per_step(self) -> float:
        """0, because the library does them itself."""
        return 0.0

    @property
    def replay(self) -> ReplaySettings:
        """A small one, which only brings back an episode when a run is resumed; the library has its own."""
        return ReplaySettings(EPISODE, 1)


class PPODefaults(Defaults):
    """PPO's defaults."""


class TD3Defaults(Defaults):
    """TD3's defaults."""


class SACDefaults(Defaults):
    """SAC's defaults."""


class DQNDefaults(Defaults):
    """DQN's defaults."""


def _algorithm(title: str, hyperparameters: type[Defaults], *actions: str) -> Algorithm:
    def learner(setup: Setup) -> Learner:
        try:
            from mrq.baselines.stable_learner import StableLearner
        except ImportError:
            raise MRQError(f"{title} needs Stable-Baselines3; run: pip install 'mrq-rl[baselines]'") from None
        return StableLearner(setup, title)

    return Algorithm(
        title.lower(),
        title,
        hyperparameters,
        learner,
        actions=actions,
        in_populations=False,
        obeys_masks=False,
        unpickles=True,
        presets={DEFAULT_PRESET: Preset("The defaults of Stable-Baselines3.")},
    )


PPO = _algorithm("PPO", PPODefaults, "discrete", "multi-discrete", "continuous")
TD3 = _algorithm("TD3", TD3Defaults, "continuous")
SAC = _algorithm("SAC", SACDefaults, "continuous")
DQN = _algorithm("DQN", DQNDefaults, "discrete")
