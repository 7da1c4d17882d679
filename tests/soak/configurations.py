"""The trainings that the soak disturbs: small, short, and one of each kind."""

from dataclasses import dataclass
from pathlib import Path

PERIOD = 40  # steps between evaluations
NETWORKS = ("--state-embedding", "16", "--state-action-embedding", "16", "--action-embedding", "8")
MRQ = (*NETWORKS, "--hidden-width", "16", "--batch-size", "8", "--target-period", "10", "--random-steps", "30")
DRQV2 = (
    "--algorithm",
    "drqv2",
    "--hidden-width",
    "16",
    "--feature-size",
    "5",
    "--batch-size",
    "4",
    "--random-steps",
    "30",
)
IMAGES = ("--batch-size", "2", "--target-period", "5")
EVERY = (
    *("--evaluate-every", str(PERIOD), "--evaluation-episodes", "1"),
    *("--replay-capacity", "100", "--environment-timeout", "3", "--device", "cpu"),
)


@dataclass(frozen=True)
class Configuration:
    """A training with its options, except for its steps."""

    name: str
    task: str
    options: tuple[str, ...]
    steps: int  # of the whole training; a multiple of PERIOD
    seeds: tuple[int, ...] = (0,)
    workers: int = 0
    checkpoint_minutes: float = 0.003  # seldom enough that evaluations are done again, often enough to hit the writing

    @property
    def trusted(self) -> tuple[str, ...]:
        """What a command needs to make the environment that a run folder names."""
        return ("--trust",) if ":" in self.task else ()

    def train(self, steps: int | None = None, seeds: tuple[int, ...] | None = None) -> list[str]:
        """Returns the arguments that begin the training."""
        return [
            *("train", self.task, *self.options, *EVERY, "--workers", str(self.workers)),
            *("--checkpoint-minutes", str(self.checkpoint_minutes)),
            *("--steps", str(steps or self.steps), "--seeds", *map(str, seeds or self.seeds)),
        ]

    def folders(self, place: Path) -> list[Path]:
        """Returns where the run folders are if it is trained in `place`."""
        return [place / "runs" / self.task.replace(":", "-") / f"seed-{seed}" for seed in self.seeds]


CONFIGURATIONS = {
    configuration.name: configuration
    for configuration in (
        Configuration("vectors", "tests.soak.environments:swing", MRQ, 160),
        Configuration("discrete", "CartPole-v1", MRQ, 160, checkpoint_minutes=0.008),
        Configuration("images", "tests.environments_for_tests:Pixels", (*MRQ, *IMAGES), 120, checkpoint_minutes=0.006),
        Configuration(
            "population", "tests.soak.environments:swing", MRQ, 160, seeds=(0, 1), workers=2, checkpoint_minutes=0.006
        ),
        Configuration("drqv2", "tests.algorithms.drqv2.pixels:MovingColumn", DRQV2, 120, checkpoint_minutes=0.01),
    )
}
