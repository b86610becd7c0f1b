"""One partition's log: batches as they were sent, and the state of their producers."""
