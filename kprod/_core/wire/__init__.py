"""Requests and responses: fields of the protocol, frames, and the pieces of a Produce request.

It serves `kprod.protocol` and `kprod.network`, and imports from the ground floor and `memory`.
"""

__all__ = ()
