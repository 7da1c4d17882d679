"""Thin adapters to other libraries' algorithms: they share the training loop, evaluation and run folders."""
