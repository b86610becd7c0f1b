"""Log compaction: of each key the newest record stays; offsets and order never change."""
