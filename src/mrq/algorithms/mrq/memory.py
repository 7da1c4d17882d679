"""How much memory agents of MR.Q take at the least, known before any of it is taken."""

import math
from collections.abc import Sequence

from mrq.algorithms.mrq.hyperparameters import Hyperparameters
from mrq.algorithms.mrq.networks import parameter_count
from mrq.interface import Spec, common_spec

ENCODER_CHUNK = 10  # encoder updates whose windows are drawn and whose targets are embedded in one pass
COPIES = 4  # of what is learned: networks, targets and two moments
BLOCKS = 2  # of noise: the present one, and the next


def encoder_chunk(spec: Spec, h: Hyperparameters) -> int:
    """Returns how many encoder updates share a pass: one of images, which are large."""
    return 1 if spec.images else min(ENCODER_CHUNK, h.target_period)


def bytes_needed(specs: Sequence[Spec], h: Hyperparameters) -> int:
    """Returns the bytes of networks and noise, and of the windows and layers of an encoder update."""
    spec = common_spec(specs)
    noise = h.target_period * h.batch_size * 4 * (4 + spec.action_size)  # uniforms for two samples, and target noise
    state = math.prod(spec.state_shape) * (1 if spec.images else 4)
    windows = encoder_chunk(spec, h) * h.batch_size * (h.encoder_horizon + 1) * state
    layers = h.batch_size * h.encoder_horizon * 4 * (2 * h.hidden_width + h.state_action_embedding)
    return len(specs) * (COPIES * 4 * parameter_count(spec, h) + BLOCKS * noise + windows + layers)
