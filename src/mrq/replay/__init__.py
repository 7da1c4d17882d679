"""What the agents experienced, and how it is sampled."""
