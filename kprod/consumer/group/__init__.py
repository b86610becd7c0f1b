"""The consumer as a member of a group, in the I/O thread: assignors, membership, commits."""

__all__ = ()
