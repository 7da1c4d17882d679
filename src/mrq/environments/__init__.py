"""From Gymnasium environments to arrays the networks understand, and back."""
