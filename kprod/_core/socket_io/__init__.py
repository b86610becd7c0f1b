"""System calls on sockets and descriptors that never block.

It serves `kprod.network` and imports from `memory`.
"""

__all__ = ()
