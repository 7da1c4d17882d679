"""The random shift of image states. MR.Q's paper does not mention it; its results use it."""

import torch
from torch import Tensor

PADDING = 4
OFFSETS = 2 * PADDING + 1  # an offset is one of 0 … 8


def shift(images: Tensor, offsets: Tensor) -> Tensor:
    """Pads by 4 pixels that repeat the edge and crops back at each image's own offset.

    images: (batch, channels, height, width); offsets: (batch, 2), rows then columns. Whole pixels make it an index.
    """
    height, width = images.shape[-2:]
    rows = torch.arange(height, device=images.device) + offsets[:, :1] - PADDING  # (batch, height)
    columns = torch.arange(width, device=images.device) + offsets[:, 1:] - PADDING
    rows, columns = rows.clamp(0, height - 1), columns.clamp(0, width - 1)
    images = images.gather(-2, rows[:, None, :, None].expand_as(images))
    return images.gather(-1, columns[:, None, None, :].expand_as(images))
