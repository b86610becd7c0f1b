"""Arrow columns written as JSON objects, with the GIL released.

It serves `kprod.spark` and imports from the ground floor and `arrow`.
"""

__all__ = ()
