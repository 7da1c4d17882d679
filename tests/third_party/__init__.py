"""Trains, saves, loads and evaluates environments of other packages: python -m tests.third_party."""
