"""Buffer memory: the pool of chunks, chains of chunks, and the waiters for memory.

It serves `kprod.producer` and the batches of the other rooms, and imports from the ground floor.
"""
