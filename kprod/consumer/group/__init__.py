"""The consumer as a member of a group: assignors, membership, commits."""

__all__ = ()
