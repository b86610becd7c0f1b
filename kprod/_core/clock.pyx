# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Clocks: two instants, monotonic for deadlines and wall for timestamps, never mixed.

Compiled because every append reads one. `ManualClock` derives from `SystemClock`, so that compiled
code may hold either in one typed field and call it without going through Python.

Thread-safety: `SystemClock` any thread; `ManualClock` under the interpreter lock.
Source: Kafka Time.java and MockTime.java (clients 4.3.1) for the idea.
"""

from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, timespec

cdef enum:
    NS_PER_MS = 1000000
    NS_PER_S = 1000000000


cdef inline int64_t _read_ns(int clock_id) noexcept nogil:
    cdef timespec spec
    clock_gettime(clock_id, &spec)
    return <int64_t>spec.tv_sec * NS_PER_S + spec.tv_nsec


cdef class SystemClock:
    """The machine's clocks."""

    cpdef int64_t now_ms(self) noexcept:
        """Monotonic milliseconds from an arbitrary origin."""
        return _read_ns(CLOCK_MONOTONIC) // NS_PER_MS

    cpdef int64_t now_ns(self) noexcept:
        """Monotonic nanoseconds, same origin as `now_ms`."""
        return _read_ns(CLOCK_MONOTONIC)

    cpdef int64_t timestamp_ms(self) noexcept:
        """Milliseconds since 1970, as the wall clock has it."""
        return _read_ns(CLOCK_REALTIME) // NS_PER_MS


cdef class ManualClock(SystemClock):
    """A clock that moves only when told, for tests and simulations.

    Monotonic and wall time have different origins, so that code which mixes them fails.

    Args:
        now_ms: Where the monotonic clock starts; ≥ 0.
        timestamp_ms: Where the wall clock starts; ≥ 0.
    """

    def __init__(self, int64_t now_ms=5_000, int64_t timestamp_ms=1_700_000_000_000):
        if now_ms < 0 or timestamp_ms < 0:
            raise ValueError(
                f"clock origins must be >= 0, got now_ms={now_ms}, timestamp_ms={timestamp_ms}"
            )
        self._now_ns = now_ms * NS_PER_MS
        self._timestamp_ms = timestamp_ms

    cpdef int64_t now_ms(self) noexcept:
        """Monotonic milliseconds."""
        return self._now_ns // NS_PER_MS

    cpdef int64_t now_ns(self) noexcept:
        """Monotonic nanoseconds."""
        return self._now_ns

    cpdef int64_t timestamp_ms(self) noexcept:
        """Wall clock, milliseconds since 1970."""
        return self._timestamp_ms

    def advance(self, int64_t delta_ms):
        """Move both clocks forward.

        Args:
            delta_ms: ≥ 0; time never goes back.

        Raises:
            ValueError: `delta_ms` is negative.
        """
        if delta_ms < 0:
            raise ValueError(f"a clock never goes back: advance({delta_ms})")
        self._now_ns += delta_ms * NS_PER_MS
        self._timestamp_ms += delta_ms

    def set_wall(self, int64_t timestamp_ms):
        """Let the wall clock jump, forward or back, as an administrator or NTP may."""
        self._timestamp_ms = timestamp_ms
