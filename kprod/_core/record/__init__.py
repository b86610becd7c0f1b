"""Record batches and message sets, written and read."""
