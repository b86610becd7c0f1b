# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The threads that settle results, so that none waits for a result that only it can settle.

Thread-safety: any thread; each registers and unregisters itself.
"""

from kprod._core.threads cimport current

from kprod.errors import KprodError

# By the ident of a sender's thread: a function that tells which results it settles.
cdef dict _owners = {}


def enter_sender(owns) -> None:
    """Register the current thread as one that settles results and must not wait for its own.

    Args:
        owns: Called with a `BatchResult` that is not done; returns whether this thread settles it.
    """
    _owners[current()] = owns


def leave_sender() -> None:
    """Unregister the current thread, which settles nothing any more."""
    _owners.pop(current(), None)


def is_sender() -> bool:
    """Return whether the current thread settles results."""
    return current() in _owners


cdef int reject_self_wait(object result) except -1:
    """Raise a `KprodError` if the current thread would wait for itself.

    Args:
        result: A `BatchResult` that is not done.
    """
    if not _owners:
        return 0
    owns = _owners.get(current())
    if owns is not None and owns(result):
        raise KprodError(
            f"a delivery callback asked for the outcome of another record for {result.topic!r},"
            " which is not settled, and would wait for itself: ask done() first, or give that"
            " record a callback of its own"
        )
    return 0
