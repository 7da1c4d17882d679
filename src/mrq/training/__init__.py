"""Where environments, replay and algorithm meet: the loop, evaluation, checkpoints, run folders."""
