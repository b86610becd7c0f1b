"""The direct path of lone records: write and read on the calling thread."""

__all__ = ()
