# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""What a bulk send keeps of its records: which batch took which, until that batch is settled.

A `SendTally` is one call's account. Each batch that takes records of the call has a `BatchShare` of
it, which knows for every one of them its place in the batch and its place in the call. Once the
batch is settled, a success leaves a range of offsets, a failure the share itself.

A share's memory. Neighbours, in batch and call, are one span, however many they are; records that
a key scatters cost a byte or two each. It is freed with the batch's success, so that only what the
buffer holds, and what failed, costs memory.

A batch's end needs no memory: an outcome that cannot be entered for lack of it is kept in a chain
of shares, and entered when somebody asks. So a call's account is closed whatever happens.

Invariants.
    A share counts as opened with its first record: a batch that never takes one is never settled.
    done == sealed and settled == opened + split, and it never goes back.
    The calls that were asked for are made when, besides, the callbacks of all batches have run.
    Each counter is written by one thread: opened and records by the sending one, the others by
    whoever settles batches.

Thread-safety: a share takes records inside its partition's critical section, then is the sender's.
    A tally's lists change inside its own critical section.
Source: Kafka ProduceRequestResult (clients 4.3.1) for one result that many records share.
"""

cimport cython
from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc
from libc.stdint cimport int32_t, int64_t, uint64_t

from kprod._core.batch_result cimport BatchListener, BatchResult
from kprod._core.collector cimport track_again
from kprod._core.varint cimport put_unsigned, take_unsigned

from _thread import allocate_lock

from kprod.errors import KprodError, Persistence, without_frames

cdef enum:
    # Three varints: 64 bits, 32 bits and 32 bits.
    SPAN_BYTES_MAX = 20
    FIRST_ROOM_BYTES = 64
    # Bits of a span's first number, below its distance in the call from the span before.
    HAS_LENGTH = 1
    HAS_GAP = 2
    FLAG_BITS = 2


cdef class SendTally:
    """The account of one bulk send.

    Attributes:
        done: Whether every record is settled and no more will come.
        record_count: Records dealt with so far, appended or refused.
    """

    def __init__(self):
        self._offsets = {}
        self._failed = []
        self._refused = []

    @property
    def failed_count(self):
        """Records that failed so far, or were refused."""
        with cython.critical_section(self):
            self._enter_late()
            return self._failed_count + len(self._refused)

    def refuse(self, error) -> None:
        """Count the next record as refused: it never came to a batch."""
        self.refuse_at(self.record_count, error)
        self.record_count += 1

    def refuse_at(self, int64_t index, error) -> None:
        """Keep the error of a record that is counted elsewhere; there may be a million of these."""
        if isinstance(error, KprodError) and error.persistence is None:
            error.persistence = Persistence.NOT_PERSISTED
        self._refused.append((index, without_frames(error)))

    def seal(self) -> None:
        """Let no more records come; the account is done once all batches are settled."""
        self._sealed = True
        self._end_if_settled()
        self._report()

    cdef void count_settled(self, BatchShare share, BatchResult result) noexcept:
        """Enter the outcome of one batch, now or when somebody asks."""
        with cython.critical_section(self):
            try:
                self._enter(share, result)
            except BaseException:
                # No memory; the share itself knows all there is to know.
                share._later = self._late
                self._late = share
            self._settled_count += 1
        self._end_if_settled()

    cdef int _enter_late(self) except -1:
        """Enter what there was no memory for; the caller is in the critical section."""
        cdef BatchShare share = self._late
        if share is None:
            return 0
        while share is not None:
            self._enter(share, share.result)
            self._late = share._later
            share._later = None
            share = self._late
        for entry in self._offsets.values():
            (<list>entry[1]).sort()
        return 0

    cdef int _enter(self, BatchShare share, BatchResult result) except -1:
        """Enter one outcome, whole or not at all."""
        cdef int64_t failed_count = 0
        cdef list entry = None
        cdef object delivered_count = None
        if result.error is not None:
            failed_count = share.record_count
        elif result._record_errors is not None:
            failed_count = sum(index in result._record_errors for index, _ in share.places())
        if failed_count < share.record_count:
            entry = self._offsets.setdefault(result.partition, [0, []])
            delivered_count = entry[0] + (share.record_count - failed_count)
        if failed_count:
            self._failed.append((share, result.error, result._record_errors))
        if entry is not None:
            try:
                self._note_offsets(entry[1], share, result)
            except BaseException:
                if failed_count:
                    self._failed.pop()
                raise
            entry[0] = delivered_count
        self._failed_count += failed_count
        if not failed_count:
            share._drop_spans()
        return 0

    cdef int _note_offsets(self, list ranges, BatchShare share, BatchResult result) except -1:
        """Put the batch's range behind the partition's others, joined with a neighbour."""
        if result.base_offset < 0:
            return 0
        # The first span may be the growing one, and the last always is.
        first = result.base_offset + share.first_index()
        last = result.base_offset + share._first + share._length - 1
        if ranges and ranges[len(ranges) - 1][1] + 1 == first:
            ranges[len(ranges) - 1] = (ranges[len(ranges) - 1][0], last)
        else:
            ranges.append((first, last))
        return 0

    cdef void _end_if_settled(self) noexcept:
        """Wake who waits when this was the last thing to wait for."""
        cdef list waiters
        with cython.critical_section(self):
            if (
                self.done or not self._sealed
                or self._settled_count < self.opened_count + self._split_count
            ):
                return
            self.done = True
            waiters = self._waiters
            self._waiters = None
        if waiters is not None:
            for lock in waiters:
                lock.release()

    cdef void count_finished(self) noexcept:
        """Note that the callbacks of one batch have run."""
        with cython.critical_section(self):
            self._finished_count += 1
        self._report()

    cdef void _report(self) noexcept:
        """Make the calls that were asked for, once, if every callback has run before them."""
        cdef list calls
        with cython.critical_section(self):
            if (
                self._reported or not self.done
                or self._finished_count < self.opened_count + self._split_count
            ):
                return
            self._reported = True
            calls = self._calls
            self._calls = None
        if calls is not None:
            for call in calls:
                try:
                    call()
                except BaseException:
                    # Told by its maker. It must not keep the others from being made.
                    pass

    def add_done_call(self, call) -> bool:
        """Make a call once all is done, and all callbacks have run; False if that was before.

        Args:
            call: Takes nothing; what it raises is dropped. In a forked child its method `forsake`
                is called instead, if it has one.
        """
        with cython.critical_section(self):
            if self._reported:
                return False
            if self._calls is None:
                self._calls = []
            self._calls.append(call)
        return True

    def done_calls(self) -> list:
        """The calls that were asked for and are not made yet."""
        with cython.critical_section(self):
            return [] if self._calls is None else list(self._calls)

    def remove_done_call(self, call) -> bool:
        """Do not make a call that was asked for; False if it is made, or was not asked for.

        Args:
            call: The same object as was given to `add_done_call`.
        """
        cdef Py_ssize_t place
        with cython.critical_section(self):
            if self._calls is not None:
                for place in range(len(self._calls)):
                    if self._calls[place] is call:
                        del self._calls[place]
                        return True
        return False

    cdef void forsake(self) noexcept:
        """Wake all that wait in a forked child; no lock is taken, as its holder may not be here."""
        waiters, self._waiters = self._waiters, None
        try:
            for lock in waiters or ():
                lock.release()
            for call in self._calls or ():
                if hasattr(call, "forsake"):
                    call.forsake()
        except BaseException:
            # The application's event loop; a thread of this process is woken before.
            pass

    def wait(self, timeout_s: float) -> bool:
        """Wait until all is done, or this is a forked child.

        Args:
            timeout_s: Seconds; negative waits as long as it takes.

        Returns:
            False when the time is over.
        """
        lock = allocate_lock()
        lock.acquire()
        with cython.critical_section(self):
            if self.done:
                return True
            if self._waiters is None:
                self._waiters = []
            self._waiters.append(lock)
        try:
            # Only this call can be interrupted by a signal handler that raises.
            return lock.acquire(True, timeout_s)
        finally:
            with cython.critical_section(self):
                waiters = self._waiters
                if waiters is not None and lock in waiters:
                    waiters.remove(lock)

    def delivered(self) -> dict:
        """Count and ranges of offsets by partition, of what is acknowledged so far."""
        with cython.critical_section(self):
            self._enter_late()
            return {
                partition: (entry[0], list(entry[1])) for partition, entry in self._offsets.items()
            }

    def failures(self) -> list:
        """Pairs of a record's place in the call and its error, ascending."""
        with cython.critical_section(self):
            self._enter_late()
            found = list(self._refused)
            failed = list(self._failed)
        for share, error, record_errors in failed:
            found += _failures_of(share, error, record_errors)
        found.sort(key=_place_of)
        return found

    def first_failure(self):
        """The first of `failures`, without making all of them."""
        with cython.critical_section(self):
            self._enter_late()
            found = self._refused[:1]
            failed = list(self._failed)
        for share, error, record_errors in failed:
            found.append(next(_failures_of(share, error, record_errors)))
        return min(found, key=_place_of)

    def batch_errors(self) -> list:
        """The errors of the batches that failed."""
        with cython.critical_section(self):
            self._enter_late()
            return [error for _, error, _ in self._failed if error is not None]


def _place_of(tuple failure):
    return failure[0]


def _failures_of(BatchShare share, error, dict record_errors):
    """The records of a share that failed, ascending."""
    for index, call_index in share.places():
        found = error if record_errors is None else record_errors.get(index, error)
        if found is not None:
            yield call_index, found


@cython.trashcan(True)
cdef class BatchShare(BatchListener):
    """The records of one call in one batch.

    Args:
        tally: The call's.
        result: The batch's.
    """

    def __cinit__(self, SendTally tally not None, BatchResult result not None):
        self.tally = tally
        self.result = result

    def __dealloc__(self):
        PyMem_RawFree(self._memory)

    @cython.nonecheck(False)
    cdef bint reserve(self) noexcept nogil:
        """Make room for one more record, so that `put` cannot fail; False without memory."""
        cdef Py_ssize_t wanted_bytes
        cdef unsigned char* grown
        if self._room_bytes - self._size_bytes >= SPAN_BYTES_MAX:
            return True
        wanted_bytes = max(2 * self._room_bytes, <Py_ssize_t>FIRST_ROOM_BYTES)
        grown = <unsigned char*>PyMem_RawRealloc(self._memory, wanted_bytes)
        if grown == NULL:
            return False
        self._memory = grown
        self._room_bytes = wanted_bytes
        return True

    @cython.nonecheck(False)
    cdef void put(self, int32_t index, int64_t call_index) noexcept nogil:
        """Note one record's places, both past those noted before; `reserve` has made room."""
        self.put_run(index, call_index, 1)

    @cython.nonecheck(False)
    cdef void put_run(self, int32_t index, int64_t call_index, int32_t count) noexcept nogil:
        """As `put`, for a run of neighbours."""
        if self.record_count == 0:
            self.tally.opened_count += 1
        elif index == self._first + self._length and call_index == self._call_first + self._length:
            self._length += count
            self.record_count += count
            return
        else:
            self._end_span()
        self._first = index
        self._call_first = call_index
        self._length = count
        self.record_count += count

    @cython.nonecheck(False)
    cdef void _end_span(self) noexcept nogil:
        """Write the growing span down."""
        cdef unsigned char* at = self._memory + self._size_bytes
        cdef uint64_t gap = <uint64_t>(self._first - self._index_end)
        cdef uint64_t head = <uint64_t>(self._call_first - self._call_end) << FLAG_BITS
        if self._length > 1:
            head |= HAS_LENGTH
        if gap:
            head |= HAS_GAP
        at = put_unsigned(at, head)
        if gap:
            at = put_unsigned(at, gap)
        if self._length > 1:
            at = put_unsigned(at, <uint64_t>self._length)
        self._size_bytes = at - self._memory
        self._index_end = self._first + self._length
        self._call_end = self._call_first + self._length

    cdef list _spans(self):
        """Triples of first place in the batch, first place in the call, and length."""
        cdef list spans = []
        cdef const unsigned char* at = self._memory
        cdef const unsigned char* end = at + self._size_bytes
        cdef uint64_t head = 0
        cdef uint64_t gap
        cdef uint64_t length
        cdef int64_t index = 0
        cdef int64_t call_index = 0
        while at < end:
            gap = 0
            length = 1
            at = take_unsigned(at, end, 64, &head)
            if head & HAS_GAP:
                at = take_unsigned(at, end, 64, &gap)
            if head & HAS_LENGTH:
                at = take_unsigned(at, end, 64, &length)
            index += <int64_t>gap
            call_index += <int64_t>(head >> FLAG_BITS)
            spans.append((index, call_index, <int64_t>length))
            index += <int64_t>length
            call_index += <int64_t>length
        if self.record_count:
            spans.append((self._first, self._call_first, self._length))
        return spans

    cdef void _drop_spans(self) noexcept:
        PyMem_RawFree(self._memory)
        self._memory = NULL
        self._size_bytes = self._room_bytes = 0

    def first_index(self) -> int:
        """The place in the batch of the first record."""
        cdef uint64_t head = 0
        cdef uint64_t gap = 0
        cdef const unsigned char* at = self._memory
        cdef const unsigned char* end = at + self._size_bytes
        if self._size_bytes == 0:
            return self._first
        at = take_unsigned(at, end, 64, &head)
        if head & HAS_GAP:
            take_unsigned(at, end, 64, &gap)
        return gap

    def places(self):
        """Yield for each record its place in the batch and its place in the call."""
        for first, call_first, length in self._spans():
            for step in range(length):
                yield first + step, call_first + step

    def note(self, int32_t index, int64_t call_index) -> None:
        """Note one record's place in the batch and in the call, both past those before."""
        if not self.reserve():
            raise MemoryError("no memory for the account of a bulk send")
        self.put(index, call_index)

    def watch(self) -> None:
        """Be told of the batch's end. Nobody else may know the batch yet."""
        if self.result._listeners is None:
            self.result._listeners = []
            track_again(self.result)
        self.result._listeners.append(self)

    cdef void settle(self, BatchResult result) noexcept:
        if self.record_count:
            self.tally.count_settled(self, result)

    cdef void report(self) noexcept:
        if self.record_count:
            self.tally.count_finished()

    cdef void forsake(self) noexcept:
        self.tally.forsake()

    cdef int follow(self, list forwards) except -1:
        """Give each part of a batch that is to be split its part of the share."""
        cdef list shares = [BatchShare(self.tally, child) for _, child in forwards]
        cdef list firsts = [first for first, _ in forwards]
        cdef Py_ssize_t part = 0
        cdef Py_ssize_t part_count = len(firsts)
        cdef BatchShare share
        if not self.record_count:
            return 0
        for first, call_first, length in self._spans():
            while length:
                while part + 1 < part_count and firsts[part + 1] <= first:
                    part += 1
                taken = length
                if part + 1 < part_count:
                    taken = min(length, firsts[part + 1] - first)
                (<BatchShare>shares[part])._add_span(first - firsts[part], call_first, taken)
                first += taken
                call_first += taken
                length -= taken
        self._part_count = 0
        for share in shares:
            if share.record_count:
                share.watch()
                self._part_count += 1
        return 0

    cdef void leave(self) noexcept:
        """Let the parts answer for it from now on."""
        if self.record_count:
            self.tally._split_count += self._part_count - 1
            self._drop_spans()

    cdef int _add_span(self, int32_t first, int64_t call_first, int32_t length) except -1:
        if not self.reserve():
            raise MemoryError("no memory for the account of a bulk send")
        if self.record_count:
            self._end_span()
        self._first = first
        self._call_first = call_first
        self._length = length
        self.record_count += length
        return 0
