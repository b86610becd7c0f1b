"""Compression of batches, by the sender's thread and others beside it."""

__all__ = ()
