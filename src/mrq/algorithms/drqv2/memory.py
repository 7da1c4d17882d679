"""How much memory agents of DrQ-v2 take at the least, known before any of it is taken."""

import math
from collections.abc import Sequence

from mrq.algorithms.drqv2.hyperparameters import Hyperparameters
from mrq.algorithms.drqv2.networks import CRITICS, encoded_size
from mrq.interface import Spec, common_spec

COPIES = 3  # of what is learned: networks and two moments


def bytes_needed(specs: Sequence[Spec], h: Hyperparameters) -> int:
    """Returns the bytes of the largest layers, and of a batch in them."""
    spec = common_spec(specs)
    networks = CRITICS + 1  # with a hidden layer; the critics share a trunk
    layers = 2 * h.feature_size * encoded_size(spec) + networks * h.hidden_width**2
    batch = h.batch_size * (math.prod(spec.state_shape) * 2 + 4 * networks * 2 * h.hidden_width)
    return len(specs) * (COPIES * 4 * layers + batch)
