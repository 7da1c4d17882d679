"""Environments: translates Gymnasium's to the network's terms and back, and runs many of them together."""
