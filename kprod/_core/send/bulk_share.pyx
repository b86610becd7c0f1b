# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""A bulk send's share of one batch: the index of each of its records in the batch and in the call.

Memory of a share. Records that are consecutive both in the batch and in the call form one span of
any length; records scattered by their keys cost a byte or two each. The memory is freed when the
batch succeeds, so that only records in the buffer, and failed ones, cost memory.

Invariant: a share counts as opened with its first record, since a batch that never takes one is
never settled.

Thread-safety: a share takes records inside its partition's critical section, then belongs to the
    sender.
Source: Kafka ProduceRequestResult (clients 4.3.1) for one result that many records share.
"""

cimport cython
from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc
from libc.stdint cimport int32_t, int64_t, uint64_t

from kprod._core.send.bulk_completion cimport BulkCompletion
from kprod._core.collector cimport track_again
from kprod._core.outcome.batch_result cimport BatchObserver, BatchResult
from kprod._core.varint cimport put_unsigned, take_unsigned

cdef enum:
    # Three varints: 64 bits, 32 bits and 32 bits.
    SPAN_BYTES_MAX = 20
    FIRST_ROOM_BYTES = 64
    # Flags in a span's first number, below its distance in the call from the span before.
    HAS_LENGTH = 1
    HAS_GAP = 2
    FLAG_BITS = 2


@cython.trashcan(True)
cdef class BatchShare(BatchObserver):
    """The records of one call in one batch.

    Args:
        account: The call's account.
        result: The batch's result.
    """

    def __cinit__(self, BulkCompletion account not None, BatchResult result not None):
        self.account = account
        self.result = result

    def __dealloc__(self):
        PyMem_RawFree(self._memory)

    @cython.nonecheck(False)
    cdef bint reserve(self) noexcept nogil:
        """Reserve memory for one more record, so that `put` cannot fail; False if there is none."""
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
        """Record the indexes of one record, which follow all earlier ones; needs a call of
        `reserve`.
        """
        self.put_run(index, call_index, 1)

    @cython.nonecheck(False)
    cdef void put_run(self, int32_t index, int64_t call_index, int32_t count) noexcept nogil:
        """Record the indexes of a run of consecutive records, as `put` does."""
        if self.record_count == 0:
            self.account.opened_count += 1
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
        """Encode the growing span."""
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
        """Return triples of first index in the batch, first index in the call, and length."""
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
        """Return the first record's index in the batch."""
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
        """Yield each record's index in the batch and in the call."""
        for first, call_first, length in self._spans():
            for step in range(length):
                yield first + step, call_first + step

    def note(self, int32_t index, int64_t call_index) -> None:
        """Record one record's indexes in the batch and in the call, which follow earlier ones."""
        if not self.reserve():
            raise MemoryError("no memory for the account of a bulk send")
        self.put(index, call_index)

    def watch(self) -> None:
        """Observe the batch, to which no other thread has access yet."""
        if self.result._listeners is None:
            self.result._listeners = []
            track_again(self.result)
        self.result._listeners.append(self)

    cdef void settle(self, BatchResult result) noexcept:
        if self.record_count:
            self.account.count_settled(self, result)

    cdef void report(self) noexcept:
        if self.record_count:
            self.account.count_finished()

    cdef void close_after_fork(self) noexcept:
        self.account.close_after_fork()

    cdef int follow(self, list forwards) except -1:
        """Divide the share among the parts of a batch that is to be split."""
        cdef list shares = [BatchShare(self.account, child) for _, child in forwards]
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
        """Count the parts' shares in place of this one, and free its spans."""
        if self.record_count:
            self.account._split_count += self._part_count - 1
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
