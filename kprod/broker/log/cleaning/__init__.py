"""Log compaction: keeps the newest record of each key; offsets and order never change."""

__all__ = ()
