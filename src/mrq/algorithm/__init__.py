"""MR.Q itself: networks, losses, updates. Knows no environment, no disk, no logger."""
