"""The path of a record from `send`, `send_many` or a coroutine into its partition's open batch.

It serves `kprod.producer` and imports from the ground floor, `memory`, `record` and `outcome`.
"""

__all__ = ()
