import os
import sys

import gymnasium as gym
import pytest

from mrq import MRQError
from mrq.environments.making import make_environment
from tests.environments.installing import Site


@pytest.fixture(scope="session")
def renderer():
    """Skips a test if nothing can render here; in CI, rendering must work."""
    try:
        make_environment("dmc-visual/cartpole-swingup").close()
    except MRQError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no renderer: {error}")


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Makes a folder of packages, which are forgotten after the test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    modules, registered = set(sys.modules), set(gym.registry)
    yield Site(tmp_path)
    for name in set(sys.modules) - modules:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
    for name in set(gym.registry) - registered:
        del gym.registry[name]
