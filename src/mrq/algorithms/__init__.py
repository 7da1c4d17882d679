"""The algorithms: one package each, behind the protocol in algorithm.py."""
