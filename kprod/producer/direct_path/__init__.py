"""The direct path of synchronous sends: write and read on the calling thread."""

__all__ = ()
