"""The hierarchical timing wheel and the purgatory's watch lists.

It serves `kprod.timer` and imports from no other room.
"""

__all__ = ()
