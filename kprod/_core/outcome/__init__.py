"""The outcome of a batch and of each record in it, and the ways to wait for it.

It serves `kprod.producer` and `kprod.aio`, and imports from the ground floor.
"""

__all__ = ()
