"""Tries environments of two packages that install in seconds. `make test-environments` tries all of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.third_party.catalogue import packages
from tests.third_party.trying import tried

PACKAGES = ("minigrid", "minatar")
ENVIRONMENTS = [package.trials[0] for package in packages() if package.name in PACKAGES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Installs the packages beside the tested versions of what they depend on; in CI, this must work."""
    folder = tmp_path_factory.mktemp("packages")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, *PACKAGES]
    done = subprocess.run(pip, capture_output=True, text=True)
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"pip cannot install {' and '.join(PACKAGES)} here")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("trial", ENVIRONMENTS, ids=lambda trial: trial.arguments[0])
def test_an_environment_of_another_package_trains(trial, folder, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    result = tried(Path(sys.executable), trial.environment, trial.arguments)
    assert result.outcome == "trains", result.why


def test_at_least_sixty_environments_of_fifteen_packages_are_listed():
    catalogue = packages()
    assert len(catalogue) >= 15
    assert sum(len(package.trials) for package in catalogue) >= 60
