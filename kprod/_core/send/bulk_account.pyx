# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The account of one bulk send: which records were delivered to which offsets, and which failed.

Each batch that takes records of the call has a `BatchShare` of the account (`bulk_share`). When the
batch is settled, a success leaves a range of offsets here, and a failure leaves the share itself.
`BulkCompletion` tracks when all batches are settled.

Settling a batch must not need memory. So an outcome that cannot be entered for lack of memory is
kept in a chain of shares, and entered on the next query. In this way every account is completed.

Invariant: only the sending thread counts records, and only the thread that settles a batch enters
its outcome.

Thread-safety: the lists change inside the account's own critical section.
Source: Kafka ProduceRequestResult (clients 4.3.1) for one result that many records share.
"""

cimport cython
from libc.stdint cimport int64_t

from kprod._core.outcome.batch_result cimport BatchObserver, BatchResult
from kprod._core.send.bulk_completion cimport BulkCompletion
from kprod._core.send.bulk_share cimport BatchShare

from kprod.errors import KprodError, Persistence, without_frames


cdef class BulkAccount(BulkCompletion):
    """The account of one bulk send.

    Attributes:
        record_count: Records handled so far, appended or rejected.
    """

    def __init__(self):
        self._offsets = {}
        self._failed = []
        self._rejected = []

    @property
    def failed_count(self):
        """Number of records that have failed so far or were rejected."""
        with cython.critical_section(self):
            self._enter_late()
            return self._failed_count + len(self._rejected)

    def reject(self, error) -> None:
        """Count the next record as rejected: it was never appended to a batch."""
        self.reject_at(self.record_count, error)
        self.record_count += 1

    def reject_at(self, int64_t index, error) -> None:
        """Keep the error of a record that is counted elsewhere; there may be a million of them."""
        if isinstance(error, KprodError) and error.persistence is None:
            error.persistence = Persistence.NOT_PERSISTED
        self._rejected.append((index, without_frames(error)))

    cdef void count_settled(self, BatchObserver share, BatchResult result) noexcept:
        """Enter the outcome of one batch, at once or on the next query."""
        cdef BatchShare own = <BatchShare>share
        with cython.critical_section(self):
            try:
                self._enter(own, result)
            except BaseException:
                # There is no memory; the share holds all that is needed to enter it later.
                own._later = self._late
                self._late = own
        BulkCompletion.count_settled(self, share, result)

    cdef int _enter_late(self) except -1:
        """Enter the outcomes that lacked memory; the caller is in the critical section."""
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
        """Append the batch's range to the partition's, joined with the last one if adjacent."""
        if result.base_offset < 0:
            return 0
        # The share's last span is always the growing one; its first span may be, too.
        first = result.base_offset + share.first_index()
        last = result.base_offset + share._first + share._length - 1
        if ranges and ranges[len(ranges) - 1][1] + 1 == first:
            ranges[len(ranges) - 1] = (ranges[len(ranges) - 1][0], last)
        else:
            ranges.append((first, last))
        return 0

    def delivered(self) -> dict:
        """Return count and ranges of offsets by partition, of the records acknowledged so far."""
        with cython.critical_section(self):
            self._enter_late()
            return {
                partition: (entry[0], list(entry[1])) for partition, entry in self._offsets.items()
            }

    def failures(self) -> list:
        """Return pairs of a record's index in the call and its error, ascending."""
        with cython.critical_section(self):
            self._enter_late()
            found = list(self._rejected)
            failed = list(self._failed)
        for share, error, record_errors in failed:
            found += _failures_of(share, error, record_errors)
        found.sort(key=_place_of)
        return found

    def first_failure(self):
        """Return the first of `failures` without creating all of them."""
        with cython.critical_section(self):
            self._enter_late()
            found = self._rejected[:1]
            failed = list(self._failed)
        for share, error, record_errors in failed:
            found.append(next(_failures_of(share, error, record_errors)))
        return min(found, key=_place_of)

    def batch_errors(self) -> list:
        """Return the errors of the failed batches."""
        with cython.critical_section(self):
            self._enter_late()
            return [error for _, error, _ in self._failed if error is not None]


def _place_of(tuple failure):
    return failure[0]


def _failures_of(BatchShare share, error, dict record_errors):
    """Yield the failed records of a share, ascending."""
    for index, call_index in share.places():
        found = error if record_errors is None else record_errors.get(index, error)
        if found is not None:
            yield call_index, found
