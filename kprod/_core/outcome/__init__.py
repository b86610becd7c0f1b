"""What became of a batch and of each record in it, and how callers wait for it."""
