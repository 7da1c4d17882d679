from collections.abc import Iterator

import pytest
import torch

from mrq import Hyperparameters
from mrq.interface import Spec

pytest.register_assert_rewrite("tests.command_line")


@pytest.fixture
def small() -> Hyperparameters:
    """Returns hyperparameters of small networks and a short start, for tests of flow rather than of learning."""
    return Hyperparameters(
        hidden_width=32,
        state_embedding=24,
        state_action_embedding=20,
        action_embedding=16,
        batch_size=16,
        target_period=20,
        random_steps=50,
        replay_capacity=1_000,
    )


@pytest.fixture
def spec() -> Spec:
    return Spec(numbers=3, continuous=2)


@pytest.fixture
def full_precision() -> None:
    """Makes a GPU compute in float32, and the same at every call."""
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True


@pytest.fixture
def uncompiled() -> Iterator[None]:
    """Captures work that runs as written; compiling takes most of a minute, and is tested once per kind."""
    with torch.compiler.set_stance("force_eager"):
        yield


@pytest.fixture(autouse=True, scope="session")
def _threads() -> None:
    torch.set_num_threads(1)  # tests run side by side
