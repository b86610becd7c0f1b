"""Producer ids, epochs and sequences, for idempotence and transactions."""

__all__ = ()
