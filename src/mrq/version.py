"""The version of the package, here alone."""

__version__ = "0.1.0"
