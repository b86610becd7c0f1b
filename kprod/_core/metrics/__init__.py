"""Counters of a producer, per topic and node, updated where things happen.

It serves `kprod.metrics` and imports from the ground floor, `record` and `outcome`.
"""

__all__ = ()
