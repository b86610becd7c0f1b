"""One partition's log: record batches as producers sent them, and the producers' state."""

__all__ = ()
