"""The soak: random kills, full disks, damage and hostile input, hour after hour; see CONTRIBUTING.md."""
