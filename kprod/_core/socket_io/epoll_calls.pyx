# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The calls of epoll that a thread makes for each record; `select.epoll` makes the others.

Each call of the standard library's object converts its arguments, and makes a list of events, which
costs more than the system call. Elsewhere than on Linux each call fails.

Thread-safety: any thread.
Source: epoll_ctl(2), epoll_wait(2); PEP 475 for interrupted waits.
"""

from cpython.exc cimport PyErr_CheckSignals, PyErr_SetFromErrno
from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t, uint32_t

cdef extern from *:
    """
    #include <errno.h>
    #include <time.h>
    #ifdef __linux__
    #include <sys/epoll.h>
    static int kprod_epoll_modify(int epoll, int descriptor, uint32_t events) {
        struct epoll_event event = {0};
        event.events = events;
        event.data.fd = descriptor;
        return epoll_ctl(epoll, EPOLL_CTL_MOD, descriptor, &event);
    }
    static int kprod_epoll_wait(int epoll, int timeout_ms) {
        struct epoll_event event;
        return epoll_wait(epoll, &event, 1, timeout_ms);
    }
    #else
    static int kprod_epoll_modify(int epoll, int descriptor, uint32_t events) {
        errno = ENOSYS;
        return -1;
    }
    static int kprod_epoll_wait(int epoll, int timeout_ms) {
        errno = ENOSYS;
        return -1;
    }
    #endif
    static int64_t kprod_epoll_now_ms(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    }
    """
    int kprod_epoll_modify(int epoll, int descriptor, uint32_t events) noexcept
    int kprod_epoll_wait(int epoll, int timeout_ms) noexcept nogil
    int64_t kprod_epoll_now_ms() noexcept

cdef enum:
    ENDED = -1


cpdef change_events(int epoll_descriptor, int descriptor, uint32_t events):
    """Change the events that an epoll reports for a descriptor.

    Args:
        epoll_descriptor: An epoll.
        descriptor: A descriptor that is registered with it.
        events: Bits of `select.EPOLLIN` and so on.

    Raises:
        OSError: The call failed, for example since a descriptor is closed.
    """
    if kprod_epoll_modify(epoll_descriptor, descriptor, events) < 0:
        PyErr_SetFromErrno(OSError)


cpdef int wait_for_one(int epoll_descriptor, int timeout_ms) except -2:
    """Wait until an epoll has an event, or a signal arrives, whose handler runs; without the GIL.

    Args:
        epoll_descriptor: An epoll.
        timeout_ms: Maximum wait, from 0.

    Returns:
        -1 at an event or the end; after a signal the time left, from 0: the handler may have
        closed the epoll, or forked, and its number may be another's now.

    Raises:
        BaseException: A signal handler raised it.
        OSError: The call failed, for example since the epoll is closed.
    """
    cdef int64_t ends_ms = kprod_epoll_now_ms() + max(timeout_ms, 0)
    cdef int count
    with nogil:
        count = kprod_epoll_wait(epoll_descriptor, max(timeout_ms, 0))
    if count >= 0:
        return ENDED
    if errno != EINTR:  # kept while the GIL is acquired
        PyErr_SetFromErrno(OSError)
    PyErr_CheckSignals()
    return <int>max(ends_ms - kprod_epoll_now_ms(), 0)
