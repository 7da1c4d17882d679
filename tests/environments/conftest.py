import os

import pytest

from mrq import MRQError
from mrq.environments.making import make_environment


@pytest.fixture(scope="session")
def renderer():
    """Skips a test if nothing can render here; in CI, rendering must work."""
    try:
        make_environment("dmc-visual/cartpole-swingup").close()
    except MRQError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no renderer: {error}")
