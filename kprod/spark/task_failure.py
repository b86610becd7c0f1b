"""Errors that end a task or a whole write.

Thread-safety: exceptions.
"""

from kprod.errors import KprodError

__all__ = ["TaskFailed", "TooManyBadRows"]


class TaskFailed(KprodError):
    """A task cannot continue; Spark runs it again, with a new producer."""


class TooManyBadRows(TaskFailed):
    """More rows than max_bad_rows or max_bad_ratio allow can never be records."""
