"""Other algorithms under MR.Q's protocol: the same environments, evaluations, run folders and report."""
