# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""A lock that compiled code acquires and releases without a call of the interpreter.

Two threads take turns with it: one waits for it, the other only tries. Any thread may release it.

Thread-safety: any thread.
Source: CPython's `_thread.lock`, of which each acquisition costs about 800 instructions.
"""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.pythread cimport (
    NOWAIT_LOCK,
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_release_lock,
    PyThread_type_lock,
)

cdef extern from "Python.h":
    int PyThread_acquire_lock_timed(
        PyThread_type_lock lock, long long microseconds, int may_be_interrupted
    ) noexcept nogil

cdef enum:
    NO_LIMIT = -1
    MAY_BE_INTERRUPTED = 1
    ACQUIRED = 1


@cython.final
cdef class TurnLock:
    """A lock that is not held at first."""

    def __cinit__(self):
        self._lock = PyThread_allocate_lock()
        if self._lock == NULL:
            raise MemoryError("no memory for a lock")

    def __dealloc__(self):
        if self._lock != NULL:
            if self._is_held:  # a held lock must not be freed
                PyThread_release_lock(self._lock)
            PyThread_free_lock(self._lock)

    cpdef bint try_acquire(self) noexcept:
        """Acquire the lock if nobody holds it.

        Returns:
            Whether it was acquired.
        """
        if PyThread_acquire_lock(self._lock, NOWAIT_LOCK) == 0:
            return False
        self._is_held = True
        return True

    cpdef acquire(self):
        """Wait for the lock, without the GIL; signal handlers run meanwhile.

        Raises:
            BaseException: A signal handler raised it; the lock was not acquired.
        """
        cdef int outcome
        if self.try_acquire():
            return
        while True:
            with nogil:
                outcome = PyThread_acquire_lock_timed(self._lock, NO_LIMIT, MAY_BE_INTERRUPTED)
            if outcome == ACQUIRED:
                self._is_held = True
                return
            PyErr_CheckSignals()

    cpdef release(self):
        """Release the lock.

        Raises:
            RuntimeError: Nobody holds it.
        """
        if not self._is_held:
            raise RuntimeError("a lock is released that nobody holds")
        self._is_held = False
        PyThread_release_lock(self._lock)

    def locked(self):
        """Return whether anybody holds the lock."""
        return self._is_held
