# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A caller and a sender at one GIL, with four ways for the caller to hand it over.

The caller's turn is a compiled method that copies a record and loads one flag, as `send` could. It
is called from a Python loop, as `send` is: only the interpreter's own loop gives the GIL away after
the switch interval. The sender works without the GIL, raises the flag, takes the GIL, and measures
its wait.

Thread-safety: one caller, and one sender in another thread; `stop` from any thread.
Source: CPython 3.11, Python/ceval_gil.h; pthread_cond_timedwait(3).
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    #include <errno.h>
    #include <pthread.h>
    #include <sched.h>
    #include <stdatomic.h>
    #include <time.h>

    typedef struct {
        atomic_int is_wanted;
        atomic_int is_over;
        pthread_mutex_t mutex;
        pthread_cond_t taken;
    } Handover;

    static int64_t handover_now_ns(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    }

    static void handover_init(Handover* it) {
        atomic_init(&it->is_wanted, 0);
        atomic_init(&it->is_over, 0);
        pthread_mutex_init(&it->mutex, NULL);
        pthread_cond_init(&it->taken, NULL);
    }

    static void handover_destroy(Handover* it) {
        pthread_mutex_destroy(&it->mutex);
        pthread_cond_destroy(&it->taken);
    }

    static int handover_is_wanted(Handover* it) {
        return atomic_load_explicit(&it->is_wanted, memory_order_relaxed);
    }

    static void handover_want(Handover* it) {
        atomic_store(&it->is_wanted, 1);
    }

    /* The sender has the GIL: wake a caller that waits for that. */
    static void handover_take(Handover* it) {
        pthread_mutex_lock(&it->mutex);
        atomic_store(&it->is_wanted, 0);
        pthread_cond_signal(&it->taken);
        pthread_mutex_unlock(&it->mutex);
    }

    /* Without the GIL: wait until the sender has it, or until the bound has passed. */
    static void handover_await(Handover* it, int64_t bound_ns) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += bound_ns;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_mutex_lock(&it->mutex);
        while (atomic_load(&it->is_wanted))
            if (pthread_cond_timedwait(&it->taken, &it->mutex, &until) == ETIMEDOUT)
                break;
        pthread_mutex_unlock(&it->mutex);
    }

    static void handover_stop(Handover* it) { atomic_store(&it->is_over, 1); }
    static int handover_is_over(Handover* it) { return atomic_load(&it->is_over); }
    """
    ctypedef struct Handover:
        pass
    int64_t handover_now_ns() nogil
    void handover_init(Handover*)
    void handover_destroy(Handover*)
    int handover_is_wanted(Handover*)
    void handover_want(Handover*) nogil
    void handover_take(Handover*)
    void handover_await(Handover*, int64_t) nogil
    void handover_stop(Handover*)
    int handover_is_over(Handover*)
    int sched_yield() nogil

cdef enum:
    RECORD_BYTES = 330
    BATCH_BYTES = 330 * 3_000
    BOUND_NS = 100_000

cdef enum:
    KEEP = 0
    RELEASE = 1
    RELEASE_AND_YIELD = 2
    RELEASE_UNTIL_TAKEN = 3

WAYS = {
    "nothing": int(KEEP),
    "release": int(RELEASE),
    "release and yield": int(RELEASE_AND_YIELD),
    "release until taken": int(RELEASE_UNTIL_TAKEN),
}


cdef class Pair:
    """A caller and a sender.

    Args:
        way: One of the values of `WAYS`.
        work_ns: Duration of the sender's work without the GIL.
    """

    cdef Handover _handover
    cdef int _way
    cdef int64_t _work_ns
    cdef Py_ssize_t _filled_bytes
    cdef char[RECORD_BYTES] _record
    cdef char[BATCH_BYTES] _batch

    def __cinit__(self, int way, int64_t work_ns):
        handover_init(&self._handover)
        self._way = way
        self._work_ns = work_ns

    def __dealloc__(self):
        handover_destroy(&self._handover)

    def turn(self):
        """Append one record; then hand the GIL over if the sender wants it."""
        memcpy(&self._batch[self._filled_bytes], self._record, RECORD_BYTES)
        self._filled_bytes = (self._filled_bytes + RECORD_BYTES) % BATCH_BYTES
        if handover_is_wanted(&self._handover):
            self._hand_over()

    cdef void _hand_over(self):
        if self._way == RELEASE:
            with nogil:
                pass
        elif self._way == RELEASE_AND_YIELD:
            with nogil:
                sched_yield()
        elif self._way == RELEASE_UNTIL_TAKEN:
            with nogil:
                handover_await(&self._handover, BOUND_NS)

    def run_sender(self) -> list[int]:
        """Work without the GIL and take it again, until `stop`.

        Returns:
            Nanoseconds of each wait for the GIL.
        """
        cdef list waits_ns = []
        cdef int64_t began_ns
        # Copied, since the caller writes to the same line of the processor's cache all the time.
        cdef int64_t work_ns = self._work_ns
        while not handover_is_over(&self._handover):
            with nogil:
                began_ns = handover_now_ns()
                while handover_now_ns() - began_ns < work_ns:
                    pass
                began_ns = handover_now_ns()
                handover_want(&self._handover)
            waits_ns.append(handover_now_ns() - began_ns)
            handover_take(&self._handover)
        return waits_ns

    def stop(self):
        """End the sender after the round of work that it is in."""
        handover_stop(&self._handover)
