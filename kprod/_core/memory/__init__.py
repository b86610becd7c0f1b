"""Buffer memory: the pool of chunks, chains of them, and the waiters for it.

It serves `kprod.producer` and whatever holds a batch's bytes, and imports from the ground floor.
"""
