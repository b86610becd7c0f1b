# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""A place in a pool's line for memory, and the wakeup of those that have what they asked for.

The pool keeps the line and grants the bytes (`ChunkPool`); a waiter knows how many chunks it asked
for, how much of that it has been granted, and how it is woken.

Thread-safety: the fields change inside the pool's critical section; one thread calls `wait`, any
    thread wakes it.
Source: Kafka BufferPool (clients 4.3.1), whose waiters are conditions of one lock.
"""

from kprod._core.threads cimport make_lock


cdef class MemoryWaiter:
    """A place in the line for memory: who waits, for how many chunks, and what it has so far.

    Here a thread waits; a subclass may have another way to be woken.

    Args:
        chunk_count: At least 1.
        large: Whether the chunks are large ones.
        chunk_bytes: Size of one.
    """

    def __cinit__(self, Py_ssize_t chunk_count, bint large, Py_ssize_t chunk_bytes):
        self.chunk_count = chunk_count
        self.large = large
        self.wanted_bytes = chunk_count * chunk_bytes
        self._lock = make_lock()
        self._lock.acquire()

    def wait(self, double timeout_s) -> bool:
        """Wait until satisfied, or until the pool closes.

        A signal handler may raise out of here; the caller then leaves the line.

        Args:
            timeout_s: Seconds, at least 0.

        Returns:
            False when the time is over; True at once, however often it is asked, when satisfied.
        """
        if self.settled:
            return True
        return self._lock.acquire(True, timeout_s)

    cdef int settle(self, bint closed) except -1:
        self.closed = closed
        self.settled = True
        return 0

    cdef int wake(self) except -1:
        self._lock.release()
        return 0

    cdef bint is_away(self) except -1:
        """Whether nobody comes for what is granted, for as long as this is so."""
        return False


cdef int wake_waiters(list settled) except -1:
    """Wake them all, even if a signal handler raises at one: an event loop is woken in Python."""
    if settled is None:
        return 0
    error = None
    for waiter in settled:
        try:
            (<MemoryWaiter>waiter).wake()
        except BaseException as raised:
            error = raised
    if error is not None:
        raise error
    return 0
