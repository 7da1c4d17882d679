"""What `mrq bench` needs to know of a Ray cluster."""

from dataclasses import dataclass
from typing import Annotated

from mrq.bounds import Between, check_fields, option
from mrq.errors import MRQError

DECIMALS = 4  # of a resource, as Ray counts them


@dataclass(frozen=True)
class Cluster:
    """Where a Ray cluster is, and how much of it each fleet takes."""

    address: str | None = None
    """Address of the cluster: auto (on this machine), HOST:PORT or ray://HOST:PORT; by default one is started here."""
    gpus_per_fleet: Annotated[float | None, Between(0, 1)] = None
    """Share of a GPU per fleet, 0 to 1; by default 1 if the cluster has GPUs and --device allows it."""
    cpus_per_fleet: Annotated[float, Between(0.0001, 10_000)] = 1.0
    """CPU cores per fleet."""

    def __post_init__(self) -> None:
        check_fields(self, option)
        for name, share in (("gpus", self.gpus_per_fleet), ("cpus", self.cpus_per_fleet)):
            if share is not None and round(share, DECIMALS) != share:
                raise MRQError(f"--{name}-per-fleet is {share}; Ray supports at most {DECIMALS} decimals.")
