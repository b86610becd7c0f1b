"""Buffer memory: the pool of chunks, and chains of them."""
