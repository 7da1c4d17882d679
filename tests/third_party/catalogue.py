"""Which packages and environments are tried: reads packages.toml."""

import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CATALOGUE = Path(__file__).with_name("packages.toml")


@dataclass(frozen=True)
class Trial:
    """An environment to try, and whether it should train."""

    environment: str  # as it is typed after `mrq train`, with options
    trains: bool

    @property
    def arguments(self) -> list[str]:
        return shlex.split(self.environment)


@dataclass(frozen=True)
class Package:
    """A package from PyPI, and which of its environments are tried."""

    name: str
    requirements: tuple[str, ...]
    without_dependencies: tuple[str, ...]  # installed without what they depend on, because their pins are too narrow
    trials: tuple[Trial, ...]


def packages() -> list[Package]:
    """Returns all packages of the catalogue, in its order."""
    return [_package(name, entry) for name, entry in tomllib.loads(CATALOGUE.read_text()).items()]


def _package(name: str, entry: dict[str, Any]) -> Package:
    trials = [Trial(environment, trains=True) for environment in entry.get("trains", ())]
    trials += [Trial(environment, trains=False) for environment in entry.get("does_not_train", ())]
    without = tuple(entry.get("without_dependencies", ()))
    return Package(name, tuple(entry.get("requirements", () if without else (name,))), without, tuple(trials))
