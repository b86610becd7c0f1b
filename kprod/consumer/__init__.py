"""The consumer: reads records from assigned partitions or from whole topics."""

__all__ = ()
