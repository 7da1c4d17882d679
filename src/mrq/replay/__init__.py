"""What the agents have lived through, and how it is sampled."""
