"""The paper's experiments: which runs there are, and where they train, here or on a cluster."""
