# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Clocks: monotonic time for deadlines and wall time for timestamps, never mixed.

Compiled because every append reads a clock. Even so, reading the wall clock is the most expensive
step of a send when many follow each other closely (22 of 89 ns), so such sends share a reading:
`shared_timestamp_ms`. The kernel's coarse clock would be as fast and simpler, but it lags by up to
a tick even for a record sent alone, whose timestamp would then be earlier than the caller's own
reading; see `docs/performance.md`. `ManualClock` derives from `SystemClock`, so that compiled code
can hold either in one typed field and call it without going through Python.

Thread-safety: `SystemClock` any thread; `ManualClock` and `SharedStamp` only with the GIL held.
Source: Kafka Time.java and MockTime.java (clients 4.3.1) for the idea.
"""

from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, timespec

cdef extern from *:
    """
    /* The time of the kernel's last tick is read from memory, in a quarter of the time. Stamps are
       shared only where that clock exists and the GIL keeps threads from running in parallel. */
    #if defined(CLOCK_REALTIME_COARSE) && !defined(Py_GIL_DISABLED)
    #define KPROD_SHARES_STAMPS 1
    #define KPROD_TICKS CLOCK_REALTIME_COARSE
    #else
    #define KPROD_SHARES_STAMPS 0
    #define KPROD_TICKS CLOCK_REALTIME
    #endif
    """
    const bint SHARES_STAMPS "KPROD_SHARES_STAMPS"
    const int CLOCK_TICKS "KPROD_TICKS"

cdef enum:
    # After ROW_MIN calls, on average at most ROW_PACE_NS apart, SHARED_BY share one reading.
    ROW_MIN = 64
    ROW_PACE_NS = 15000
    SHARED_BY = 16
    NS_PER_MS = 1000000
    NS_PER_S = 1000000000

cdef int64_t NO_END_NS = -1


cdef inline int64_t _read_ns(int clock_id) noexcept nogil:
    cdef timespec spec
    clock_gettime(clock_id, &spec)
    return <int64_t>spec.tv_sec * NS_PER_S + spec.tv_nsec


cdef class SystemClock:
    """The machine's monotonic and wall clocks."""

    cpdef int64_t now_ms(self) noexcept:
        """Return monotonic milliseconds from an arbitrary origin."""
        return _read_ns(CLOCK_MONOTONIC) // NS_PER_MS

    cpdef int64_t now_ns(self) noexcept:
        """Return monotonic nanoseconds, with the same origin as `now_ms`."""
        return _read_ns(CLOCK_MONOTONIC)

    cpdef int64_t timestamp_ms(self) noexcept:
        """Return the wall clock's milliseconds since 1970."""
        return _read_ns(CLOCK_REALTIME) // NS_PER_MS

    cdef int64_t own_timestamp_ms(self, SharedStamp* stamp) noexcept:
        """Read the wall clock for this call alone, and stop sharing the earlier reading."""
        stamp.left_count = 0
        stamp.row_count = 0
        return self.timestamp_ms()

    cdef int64_t shared_timestamp_ms(self, SharedStamp* stamp) noexcept:
        """Return the wall clock's milliseconds, from a shared reading if calls are frequent.

        After 64 calls in a row, on average at most 15 us apart, sixteen calls share one reading
        while the kernel's tick stays the same. A tick takes 1 to 10 ms, as the kernel was built,
        or longer while a virtual machine is not scheduled. During the row a stamp usually lags by
        at most a quarter of a millisecond. After its end, up to fifteen calls may still get its
        last stamp, but never one from before the current tick.

        `stamp.shared_count` is 0 afterwards if the clock was read for this call.
        """
        cdef int64_t tick_ns
        if not SHARES_STAMPS:
            return self.timestamp_ms()
        tick_ns = _read_ns(CLOCK_TICKS)
        if stamp.left_count > 0 and tick_ns == stamp.tick_ns:
            stamp.left_count -= 1
            stamp.shared_count += 1
            return stamp.timestamp_ms
        return self._read_shared(stamp, tick_ns)

    cdef int64_t _read_shared(self, SharedStamp* stamp, int64_t tick_ns) noexcept:
        cdef int64_t read_ns = _read_ns(CLOCK_REALTIME)
        cdef int64_t took_ns = read_ns - stamp.read_ns
        cdef int call_count = stamp.shared_count + 1
        if 0 <= took_ns <= <int64_t>call_count * ROW_PACE_NS:
            stamp.row_count = min(stamp.row_count + call_count, <int>ROW_MIN)
        else:
            stamp.row_count = 0
        stamp.left_count = SHARED_BY - 1 if stamp.row_count == ROW_MIN else 0
        stamp.shared_count = 0
        stamp.tick_ns = tick_ns
        stamp.read_ns = read_ns
        stamp.timestamp_ms = read_ns // NS_PER_MS
        return stamp.timestamp_ms


cpdef double bounded_s(object timeout) except -1:
    """Convert a caller's timeout to seconds to wait, from 0 to 10⁹, which replaces infinity.

    Raises:
        TypeError: It is not a number.
        ValueError: It is NaN.
    """
    cdef double timeout_s
    try:
        timeout_s = timeout
    except OverflowError:
        # The integer is too large for a double.
        return 1e9 if timeout > 0 else 0.0
    if timeout_s != timeout_s:
        raise ValueError(f"timeout must be seconds or None, got {timeout}")
    return min(max(timeout_s, 0.0), 1e9)


# None: the machine's.
cdef SystemClock _wait_clock = None


def wait_by(SystemClock clock) -> None:
    """Set the clock by which waits of application threads measure their timeouts.

    Futures and receipts know no producer whose clock they could ask. A simulation, whose threads
    wait in virtual time, calls this before its first wait, and with None after the last.

    Args:
        clock: Clock of every further `Deadline` that is made without a clock; None is the
            machine's, as at first.
    """
    global _wait_clock
    _wait_clock = clock


cdef class Deadline:
    """The instant at which a caller's timeout, counted from now, is over.

    Args:
        timeout: Seconds; None for no end. Below 0 counts as 0, above 10⁹ (30 years) as 10⁹.
        clock: Clock whose monotonic time is used; by default the clock of waits (`wait_by`), which
            is the machine's.

    Raises:
        TypeError: The timeout is not a number.
        ValueError: The timeout is NaN.

    Thread-safety: immutable.
    """

    def __cinit__(self, timeout=None, SystemClock clock=None):
        self._clock = _wait_clock if clock is None else clock
        self._ends_ns = NO_END_NS
        if timeout is not None:
            self._ends_ns = self._now_ns() + <int64_t>(bounded_s(timeout) * NS_PER_S)

    cdef int64_t _now_ns(self) noexcept:
        return _read_ns(CLOCK_MONOTONIC) if self._clock is None else self._clock.now_ns()

    cpdef double wait_s(self) noexcept:
        """Return the seconds left, as a lock's `acquire` takes them: at least 0; −1 for no end."""
        if self._ends_ns == NO_END_NS:
            return -1
        return max(self._ends_ns - self._now_ns(), <int64_t>0) / <double>NS_PER_S

    def left_s(self):
        """Return the seconds left, at least 0; None for no end."""
        return None if self._ends_ns == NO_END_NS else self.wait_s()

    cpdef bint is_over(self) noexcept:
        """Return whether the deadline has passed."""
        return self._ends_ns != NO_END_NS and self._now_ns() >= self._ends_ns


cdef class ManualClock(SystemClock):
    """A clock that moves only by `advance` and `set_wall`, for tests and simulations.

    Monotonic and wall time have different origins, so that code which mixes them fails.

    Args:
        now_ms: Start of the monotonic clock; ≥ 0.
        timestamp_ms: Start of the wall clock; ≥ 0.
    """

    def __init__(self, int64_t now_ms=5_000, int64_t timestamp_ms=1_700_000_000_000):
        if now_ms < 0 or timestamp_ms < 0:
            raise ValueError(
                f"clock origins must be >= 0, got now_ms={now_ms}, timestamp_ms={timestamp_ms}"
            )
        self._now_ns = now_ms * NS_PER_MS
        self._timestamp_ms = timestamp_ms
        self._wall_rest_ns = 0

    cpdef int64_t now_ms(self) noexcept:
        """Return monotonic milliseconds."""
        return self._now_ns // NS_PER_MS

    cpdef int64_t now_ns(self) noexcept:
        """Return monotonic nanoseconds."""
        return self._now_ns

    cpdef int64_t timestamp_ms(self) noexcept:
        """Return the wall clock's milliseconds since 1970."""
        return self._timestamp_ms

    cdef int64_t own_timestamp_ms(self, SharedStamp* stamp) noexcept:
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

    def advance_ns(self, int64_t delta_ns):
        """Move both clocks forward by nanoseconds.

        Args:
            delta_ns: ≥ 0. The wall clock shows a millisecond once all of it has passed.

        Raises:
            ValueError: `delta_ns` is negative.
        """
        if delta_ns < 0:
            raise ValueError(f"a clock never goes back: advance_ns({delta_ns})")
        self._now_ns += delta_ns
        self._wall_rest_ns += delta_ns
        self._timestamp_ms += self._wall_rest_ns // NS_PER_MS
        self._wall_rest_ns %= NS_PER_MS

    def set_wall(self, int64_t timestamp_ms):
        """Set the wall clock, forward or back, as an administrator or NTP may."""
        self._timestamp_ms = timestamp_ms
        self._wall_rest_ns = 0
