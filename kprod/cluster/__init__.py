"""The client's knowledge of the cluster: immutable snapshots, and when to request a newer one.

No socket and no thread here; `kprod.network` carries requests and responses.
"""

__all__ = ()
