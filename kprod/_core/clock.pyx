# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Clocks: two instants, monotonic for deadlines and wall for timestamps, never mixed.

Compiled because every append reads one. Even so, to read the wall clock is the dearest step of a
send in a row of many (45 of 300 ns), so these share a reading: `shared_timestamp_ms`. `ManualClock`
derives from `SystemClock`, so that compiled code may hold either in one typed field and call it
without going through Python.

Thread-safety: `SystemClock` any thread; `ManualClock` under the interpreter lock.
Source: Kafka Time.java and MockTime.java (clients 4.3.1) for the idea.
"""

from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, timespec

cdef extern from *:
    """
    /* Read from memory, in a quarter of the time: the instant of the kernel's last tick. */
    #if defined(CLOCK_REALTIME_COARSE)
    #define KPROD_HAS_TICKS 1
    #define KPROD_TICKS CLOCK_REALTIME_COARSE
    #else
    #define KPROD_HAS_TICKS 0
    #define KPROD_TICKS CLOCK_REALTIME
    #endif
    """
    const bint HAS_TICKS "KPROD_HAS_TICKS"
    const int CLOCK_TICKS "KPROD_TICKS"

cdef enum:
    # How many share a reading, and how close together they must have come.
    SHARED_BY = 16
    SHARED_PACE_NS = 15000
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

    cdef int64_t shared_timestamp_ms(self, SharedStamp* stamp) noexcept:
        """As `timestamp_ms`, for calls that may follow close upon each other.

        Sixteen share a reading where the ones before took no longer than 15 us each. So a steady
        stream's stamps are late by a quarter of a millisecond at most; those of the up to fifteen
        calls after such a stream has stopped may be as early as the kernel's last tick (1 to 10 ms,
        as it was built). Set `left_count` to 0 where that must not be.
        """
        cdef int64_t tick_ns
        stamp.asked_count += 1
        if stamp.left_count > 0:
            tick_ns = _read_ns(CLOCK_TICKS)
            if tick_ns == stamp.tick_ns:
                stamp.left_count -= 1
                return stamp.timestamp_ms
        return self._read_shared(stamp)

    cdef int64_t _read_shared(self, SharedStamp* stamp) noexcept:
        cdef int64_t tick_ns = _read_ns(CLOCK_TICKS)
        cdef int64_t read_ns = _read_ns(CLOCK_REALTIME)
        cdef int64_t took_ns = read_ns - stamp.read_ns
        cdef bint are_close = 0 <= took_ns <= <int64_t>stamp.asked_count * SHARED_PACE_NS
        stamp.left_count = SHARED_BY - 1 if HAS_TICKS and are_close else 0
        stamp.asked_count = 0
        stamp.tick_ns = tick_ns
        stamp.read_ns = read_ns
        stamp.timestamp_ms = read_ns // NS_PER_MS
        return stamp.timestamp_ms


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

    cdef int64_t shared_timestamp_ms(self, SharedStamp* stamp) noexcept:
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
