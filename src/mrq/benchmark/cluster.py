"""What `mrq bench` needs to know of a Ray cluster."""

from dataclasses import dataclass

from mrq.errors import MRQError

DECIMALS = 4  # of a resource, as Ray counts them


@dataclass(frozen=True)
class Cluster:
    """Where a Ray cluster is, and how much of it each fleet takes."""

    address: str | None = None
    """Address of the cluster: auto (on this machine), HOST:PORT or ray://HOST:PORT; by default one is started here."""
    gpus_per_fleet: float | None = None
    """Share of a GPU per fleet, 0 to 1; by default 1 if the cluster has GPUs and --device allows it."""
    cpus_per_fleet: float = 1.0
    """CPU cores per fleet."""

    def __post_init__(self) -> None:
        if self.gpus_per_fleet is not None and not 0 <= self.gpus_per_fleet <= 1:
            raise MRQError(f"--gpus-per-fleet is {self.gpus_per_fleet}; it must be between 0 and 1.")
        if not 0 < self.cpus_per_fleet < float("inf"):
            raise MRQError(f"--cpus-per-fleet is {self.cpus_per_fleet}; it must be above 0.")
        for name, share in (("gpus", self.gpus_per_fleet), ("cpus", self.cpus_per_fleet)):
            if share is not None and round(share, DECIMALS) != share:
                raise MRQError(f"--{name}-per-fleet is {share}; Ray supports at most {DECIMALS} decimals.")
