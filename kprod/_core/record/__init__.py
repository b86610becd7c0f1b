"""Record batches and message sets: building, reading and rewriting them.

It serves `kprod.record`, `kprod.broker` and `kprod.compression`, and imports from the ground floor
and `memory`.
"""

__all__ = ()
