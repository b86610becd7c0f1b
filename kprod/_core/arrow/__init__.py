"""Arrow tables sent as records: the C data interface, columns, rows and batches.

It serves `kprod.producer` and imports from the ground floor, `memory`, `record`, `outcome` and
`send`.
"""

__all__ = ()
