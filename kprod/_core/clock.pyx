# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Clocks: two instants, monotonic for deadlines and wall for timestamps, never mixed.

Compiled because every append reads one. Even so, to read the wall clock is the dearest step of a
send in a row of many (22 of 89 ns), so these share a reading: `shared_timestamp_ms`. The kernel's
coarse clock would be as fast and simpler, but its time lags by a tick for a record sent alone too,
and so lies before the caller's own; see `docs/performance.md`. `ManualClock` derives from
`SystemClock`, so that compiled code may hold either in one typed field and call it without going
through Python.

Thread-safety: `SystemClock` any thread; `ManualClock`, and a `SharedStamp`, under the interpreter
    lock.
Source: Kafka Time.java and MockTime.java (clients 4.3.1) for the idea.
"""

from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, timespec

cdef extern from *:
    """
    /* The kernel's last tick: read from memory, in a quarter of the time. A stamp is shared where
       there is that, and where threads do not run side by side. */
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
    # A row is so many calls that each came so close upon the one before; then so many share.
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

    cdef int64_t own_timestamp_ms(self, SharedStamp* stamp) noexcept:
        """As `timestamp_ms`; what was shared before is shared no longer."""
        stamp.left_count = 0
        stamp.row_count = 0
        return self.timestamp_ms()

    cdef int64_t shared_timestamp_ms(self, SharedStamp* stamp) noexcept:
        """As `timestamp_ms`, for calls of which many may follow close upon each other.

        After 64 in a row, on average 15 us apart or less, sixteen share a reading, while the
        kernel's tick stays the same: for 1 to 10 ms, as it was built, or while a machine is kept
        from running. As long as the row goes on, a stamp lags by a quarter of a millisecond as a
        rule; when it stops, up to fifteen calls may still get its last stamp, but none that is
        from before the tick.

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
    """A caller's timeout as seconds to wait: at least 0, at most 10⁹, in place of infinity.

    Raises:
        TypeError: It is no number.
        ValueError: It is NaN, of which nobody could say when it is over.
    """
    cdef double timeout_s
    try:
        timeout_s = timeout
    except OverflowError:
        # An integer that no double holds.
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
        clock: Of every `Deadline` that is made from now on without a clock of its own; None is the
            machine's, as at first.
    """
    global _wait_clock
    _wait_clock = clock


cdef class Deadline:
    """When a wait ends: a caller's timeout, from now on.

    Args:
        timeout: Seconds; None never ends. Below 0 counts as 0, above 10⁹ (30 years) as 10⁹.
        clock: Whose monotonic time is meant; by default the clock of waits (`wait_by`), which is
            the machine's.

    Raises:
        TypeError: The timeout is no number.
        ValueError: It is NaN.

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
        """Seconds left as a lock's `acquire` takes them: at least 0; −1 if it never ends."""
        if self._ends_ns == NO_END_NS:
            return -1
        return max(self._ends_ns - self._now_ns(), <int64_t>0) / <double>NS_PER_S

    def left_s(self):
        """Seconds left, at least 0; None if it never ends."""
        return None if self._ends_ns == NO_END_NS else self.wait_s()

    cpdef bint is_over(self) noexcept:
        """Whether the time is over."""
        return self._ends_ns != NO_END_NS and self._now_ns() >= self._ends_ns


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
        self._wall_rest_ns = 0

    cpdef int64_t now_ms(self) noexcept:
        """Monotonic milliseconds."""
        return self._now_ns // NS_PER_MS

    cpdef int64_t now_ns(self) noexcept:
        """Monotonic nanoseconds."""
        return self._now_ns

    cpdef int64_t timestamp_ms(self) noexcept:
        """Wall clock, milliseconds since 1970."""
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
        """Move both clocks forward by less than a millisecond, or by more.

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
        """Let the wall clock jump, forward or back, as an administrator or NTP may."""
        self._timestamp_ms = timestamp_ms
        self._wall_rest_ns = 0
