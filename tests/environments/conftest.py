import os

import pytest

from mrq import MRQError
from mrq.environments.making import make_environment


@pytest.fixture(scope="session")
def renderer():
    """Skips where nothing can draw; CI has what it takes."""
    try:
        make_environment("dmc-visual/cartpole-swingup").close()
    except MRQError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no renderer: {error}")
