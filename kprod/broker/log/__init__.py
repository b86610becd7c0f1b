"""One partition's log: batches as they were sent, and what is known of their producers."""
