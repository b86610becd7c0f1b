# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""A waiter in a pool's queue for memory, and the wakeup of satisfied waiters.

The pool keeps the queue and grants the bytes (`ChunkPool`). A waiter records how many chunks it
needs and how many bytes it has been granted, and implements its wakeup.

Thread-safety: the fields change inside the pool's critical section; one thread calls `wait`, any
    thread may wake it.
Source: Kafka BufferPool (clients 4.3.1), whose waiters are conditions of one lock.
"""

from kprod._core.threads cimport make_lock, wait_for


cdef class MemoryWaiter:
    """A request for chunks that waits in the pool's queue.

    This class blocks a thread; a subclass may be woken in another way.

    Args:
        chunk_count: At least 1.
        large: Whether the chunks are large ones.
        chunk_bytes: Size of one chunk.
    """

    def __cinit__(self, Py_ssize_t chunk_count, bint large, Py_ssize_t chunk_bytes):
        self.chunk_count = chunk_count
        self.large = large
        self.wanted_bytes = chunk_count * chunk_bytes
        self._lock = make_lock()
        self._lock.acquire()

    def wait(self, double timeout_s) -> bool:
        """Wait until the request is satisfied or the pool closes.

        A signal handler may raise out of this call; the caller must then leave the queue.

        Args:
            timeout_s: Seconds, at least 0.

        Returns:
            False on timeout. True, also on every later call, once the waiter is settled.
        """
        if self.settled:
            return True
        return wait_for(self._lock, timeout_s)

    cdef int settle(self, bint closed) except -1:
        self.closed = closed
        self.settled = True
        return 0

    cdef int wake(self) except -1:
        self._lock.release()
        return 0

    cdef bint is_away(self) except -1:
        """Return whether the waiter cannot claim its grant at present."""
        return False


cdef int wake_waiters(list settled) except -1:
    """Wake all waiters, even if waking one raises.

    An event loop is woken by Python code, in which a signal handler may raise.
    """
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
