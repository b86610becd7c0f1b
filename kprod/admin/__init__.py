"""Administration of a cluster beyond topics: consumer groups and their offsets."""

__all__ = ()
