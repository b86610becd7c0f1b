"""Buffer memory: the pool of chunks, chains of chunks, and the waiters for memory.

It serves `kprod.producer` and the rooms that fill and send batches, and imports from the ground
floor.
"""

__all__ = ()
