"""The paper's experiments: which runs there are, and where they train: on this machine or on a cluster."""
