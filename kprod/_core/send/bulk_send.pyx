# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Many records in one call: the loop over `send` without the calls, and without futures.

Each record takes the same steps as in `SendPath.send`, with the same checks, the same partition and
the same waits. Instead of a future, the call's share of the batch records its position. A record
that `send` would reject is counted with its error, and the call continues with the next one.

An error that would affect every further record ends the call: a closed producer, no memory within
`max_block_ms`, an exception raised by the iterables or a signal handler. Records appended until
then stay appended, and are in the account.

Records are taken from their iterables one by one, never ahead: a slow generator's record is on its
way before the next one is requested.

Thread-safety: a `BulkCall` belongs to one thread; any number may run concurrently, and beside
    `send`.
Source: Kafka KafkaProducer.doSend (clients 4.3.1).
"""

cimport cython
from cpython.buffer cimport PyBuffer_Release
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyCallable_Check
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport int32_t, int64_t

from kprod._core.send.send_path cimport SendPath, future_of
from kprod._core.arguments cimport expose, plain_text, whole
from kprod._core.record.batch_builder cimport (
    APPENDED, BatchBuilder, RecordFields,
)
from kprod._core.outcome.batch_result cimport BatchResult
from kprod._core.send.bulk_columns cimport Column, END, take
from kprod._core.send.bulk_share cimport BatchShare
from kprod._core.collector cimport track_again
from kprod._core.record.header_section cimport encode_header_section
from kprod._core.send.partition_appender cimport (
    CLOSED, NO_BATCH, PartitionAppender, AppendRequest, TopicRoutes,
)
from kprod._core.outcome.record_future cimport RecordFuture
from kprod._core.send.bulk_account cimport BulkAccount

from kprod.errors import ClosedError, KprodError, KprodTimeout, UnknownPartition

cdef enum:
    # Outcome of an append that was not tried: this call has no share of the open batch yet.
    NO_SHARE = 102
    # Check for signals and yield to other threads each time this many records are sent (a power of
    # two).
    SIGNAL_CHECK_RECORDS = 4096
    # If all items are in memory, one clock reading serves this many records: a few microseconds.
    STAMP_RECORDS = 64
    # Columns besides the values: keys, headers, partitions, timestamps.
    OTHER_COLUMNS = 4

cdef const unsigned char* NO_HEADERS = b"\x00"
# Errors that concern the call, whichever record met them.
UNENDURED = (ClosedError, KprodTimeout, MemoryError)


cdef inline PartitionAppender queue_at(TopicRoutes routes, Py_ssize_t index):
    """Return a partition's queue, or raise IndexError: any Python code may have set the index."""
    with cython.boundscheck(True):
        return <PartitionAppender>routes.queues[index]


cdef class BulkCall:
    """One bulk send and its progress.

    Args:
        path: The producer's send path.
        topic: Name of the topic; a new topic is waited for within `max_block_ms`.
        on_delivery: Called for each record, as in `send`.
    """

    def __init__(self, SendPath path not None, topic, on_delivery=None):
        if path.closed_error is not None:
            raise path.closed_error()
        if on_delivery is not None and not PyCallable_Check(on_delivery):
            raise TypeError(
                f"on_delivery must be callable or None, got {type(on_delivery).__name__}"
            )
        if not PyUnicode_CheckExact(topic):
            topic = plain_text(topic)
        self._path = path
        self._on_delivery = on_delivery
        self._has_serializers = path._has_serializers
        self.account = BulkAccount()
        self.routes = path.topics.get(topic)
        if self.routes is None:
            self.routes = path.hooks.open_topic(topic, path._max_block_ms)
        self._shares = [None] * PyList_GET_SIZE(self.routes.queues)
        self._missing_from = <int64_t>0x7FFFFFFFFFFFFFFF
        self._signal_check_at = SIGNAL_CHECK_RECORDS

    def run(self, Column values not None, list others not None) -> None:
        """Append every record.

        Args:
            values: Determines the number of records.
            others: Columns of keys, headers, partitions and timestamps, or None; not shorter.

        Raises:
            ValueError: Another column ended before the values.
            KprodError: No further record can be appended.
        """
        cdef SendPath path = self._path
        if len(others) != OTHER_COLUMNS:
            raise ValueError(f"a bulk send has {OTHER_COLUMNS} other columns, got {len(others)}")
        self._is_at_hand = all(c is None or (<Column?>c).is_at_hand for c in [values, *others])
        self._is_plain = (
            values.is_at_hand and self._on_delivery is None and all(c is None for c in others)
            and not (path._has_interceptors or self._has_serializers)
            and not (path._has_partitioner or path._takes_turns)
        )
        while True:
            try:
                self._send_rows(values, others)
                return
            except Exception as error:
                if not self._is_checking or isinstance(error, UNENDURED):
                    raise
                self._is_checking = False
                self.account.reject(error)
                self._check_signals_in_turn()

    cdef int _send_rows(self, Column values, list others) except -1:
        """Append records until the values end, or one of them is rejected by an exception."""
        cdef Column keys = others[0]
        cdef Column headers = others[1]
        cdef Column partitions = others[2]
        cdef Column timestamps = others[3]
        cdef object value
        cdef object key = None
        cdef object header = None
        cdef object partition = None
        cdef object timestamp_ms = None
        while True:
            if self._is_plain:
                self._append_run(values)
            value = take(values)
            if value is END:
                return 0
            if keys is not None:
                key = self._beside(keys)
            if headers is not None:
                header = self._beside(headers)
            if partitions is not None:
                partition = self._beside(partitions)
            if timestamps is not None:
                timestamp_ms = self._beside(timestamps)
            self._send(value, key, header, partition, timestamp_ms)
            self._check_signals_in_turn()

    cdef int _check_signals_in_turn(self) except -1:
        """Let signal handlers and other threads run, if it is time.

        It is time every `SIGNAL_CHECK_RECORDS` records, and every millisecond if items may come
        slowly.
        """
        cdef int64_t now_ms = self._signal_check_ms
        if not self._is_at_hand:
            now_ms = self._path._clock.now_ms()
        if self.account.record_count >= self._signal_check_at or now_ms != self._signal_check_ms:
            self._signal_check_at = self.account.record_count + SIGNAL_CHECK_RECORDS
            self._signal_check_ms = now_ms
            self._path.hooks.check_signals()
        return 0

    cdef int _append_run(self, Column values) except -1:
        """Append bytes to the sticky partition's open batch, as many as need no other step."""
        cdef SendPath path = self._path
        cdef Py_ssize_t index = self.routes.sticky
        cdef PartitionAppender queue = queue_at(self.routes, index)
        cdef BatchShare share = self._share_at(index)
        cdef BatchBuilder builder
        cdef RecordFields record
        cdef int32_t first
        cdef Py_ssize_t count
        cdef bint is_full
        if share is None:
            return 0
        record.timestamp_ms = path._clock.own_timestamp_ms(&path._stamp)
        record.key = NULL
        record.key_bytes = -1
        record.headers = NO_HEADERS
        record.headers_bytes = 1
        with cython.critical_section(queue):
            builder = queue.builder
            if builder is None or share.result is not queue.result or path.closed_error is not None:
                return 0
            first = builder.record_count
            # A batch's first record takes more than an append.
            if first == 0:
                return 0
            count = values.append_run(builder, &record, path._record_bytes_max)
            if count:
                share.put_run(first, self.account.record_count, count)
                self.account.record_count += count
            is_full = builder.size_bytes >= builder.limit_bytes
        if is_full:
            path._post(queue)
        return 0

    cdef object _beside(self, Column column):
        """Return the next item of a column that must not end before the values do."""
        item = take(column)
        if item is END:
            raise ValueError(
                f"{column.role} ended after {self.account.record_count} items, and values continue;"
                " for one item for all records, give itertools.repeat(item)"
            )
        return item

    cdef int _send(
        self, object value, object key, object headers, object partition, object timestamp_ms
    ) except -1:
        """Append one record; while `_is_checking`, an exception concerns this record alone."""
        cdef SendPath path = self._path
        cdef RecordFields record
        cdef Py_buffer key_view
        cdef Py_buffer value_view
        cdef bint key_is_viewed = False
        cdef bint value_is_viewed = False
        cdef bytes section = None
        cdef object on_delivery = self._on_delivery
        cdef Py_ssize_t index
        cdef AppendRequest request
        request.waited_ms = 0
        request.shares_stamp = False  # blocks of records share one, calls do not
        request.reserved = NULL
        record.headers = NO_HEADERS
        record.headers_bytes = 1
        self._is_checking = True
        if path._has_interceptors or self._has_serializers:
            value, key, headers, partition, timestamp_ms, on_delivery = self._shown(
                (value, key, headers, partition, timestamp_ms)
            )
        if headers is not None:
            section = encode_header_section(headers, path._record_bytes_max)
            if section is None:
                raise path.headers_too_large(self.routes)
            record.headers = <const unsigned char*>PyBytes_AS_STRING(section)
            record.headers_bytes = PyBytes_GET_SIZE(section)
        try:
            value_is_viewed = expose(
                value, &value_view, &record.value, &record.value_bytes, "value"
            )
            key_is_viewed = expose(key, &key_view, &record.key, &record.key_bytes, "key")
            if timestamp_ms is None:
                record.timestamp_ms = self._now_ms()
            else:
                record.timestamp_ms = whole(timestamp_ms, "timestamp_ms")
            if path._has_partitioner and partition is None:
                partition = path.hooks.choose_partition(self.routes, key, value)
            if partition is None:
                index = path._partition_index(self.routes, &record, None, &request.waited_ms)
            else:
                index = self._given_index(&record, partition, &request.waited_ms)
            request.bound_bytes = path._bound_bytes(self.routes, &record)
            self._is_checking = False
            return self._put(index, &record, on_delivery, &request)
        finally:
            if value_is_viewed:
                PyBuffer_Release(&value_view)
            if key_is_viewed:
                PyBuffer_Release(&key_view)

    cdef tuple _shown(self, tuple row):
        """Return the record as interceptors and serializers leave it, and its callback."""
        cdef SendPath path = self._path
        on_delivery = self._on_delivery
        value, key, headers, partition, timestamp_ms = row
        if path._has_interceptors:
            topic, value, key, headers, partition, timestamp_ms, on_delivery = path.hooks.intercept(
                (self.routes.name, value, key, headers, partition, timestamp_ms), on_delivery
            )
            if topic != self.routes.name:
                raise KprodError(
                    f"an interceptor moved a record from topic {self.routes.name!r} to {topic!r}; a"
                    " bulk send has one topic: use send()"
                )
        if self._has_serializers:
            key, value, headers = path.hooks.serialize(self.routes.name, key, value, headers)
        return value, key, headers, partition, timestamp_ms, on_delivery

    cdef Py_ssize_t _given_index(
        self, RecordFields* record, object partition, int64_t* waited_ms
    ) except -2:
        """Check a given partition as `send` does, without asking twice for a missing one."""
        cdef int64_t index = whole(partition, "partition")
        if index < self.routes.partition_count:
            return <Py_ssize_t>index
        if index >= self._missing_from:
            raise UnknownPartition(
                f"topic {self.routes.name!r} has no partition {index}: its last is"
                f" {self.routes.partition_count - 1}"
            )
        try:
            return self._path._partition_index(self.routes, record, partition, waited_ms)
        except UnknownPartition:
            self._missing_from = min(self._missing_from, index)
            raise

    cdef int64_t _now_ms(self) noexcept:
        """Return the wall clock's time, read seldom while records come without a pause."""
        if self._stamp_life == 0:
            self._stamp_ms = self._path._clock.own_timestamp_ms(&self._path._stamp)
            self._stamp_life = STAMP_RECORDS if self._is_at_hand else 1
        self._stamp_life -= 1
        return self._stamp_ms

    cdef int _put(
        self, Py_ssize_t index, RecordFields* record, object on_delivery, AppendRequest* request
    ) except -1:
        """Append to the partition's open batch; index −1 means the sticky partition."""
        cdef SendPath path = self._path
        cdef TopicRoutes routes = self.routes
        cdef BulkAccount account = self.account
        cdef PartitionAppender queue
        cdef BatchBuilder builder
        cdef BatchResult result
        cdef BatchShare share
        cdef RecordFuture future = None
        cdef int32_t place = 0
        cdef int outcome = APPENDED
        cdef bint is_sticky = index < 0
        if on_delivery is not None:
            future = future_of(record)
            future._on_delivery = on_delivery
        while True:
            if is_sticky:
                if (outcome == NO_BATCH or outcome == NO_SHARE) and index != routes.sticky:
                    # Its batch may stay empty; posted, its memory can go to a waiting send.
                    path._post(<PartitionAppender>routes.queues[index])
                index = routes.sticky
            queue = queue_at(routes, index)
            share = self._share_at(index)
            with cython.critical_section(queue):
                builder = queue.builder
                result = queue.result
                if path.closed_error is not None:
                    outcome = CLOSED
                elif builder is None:
                    outcome = NO_BATCH
                elif share is None or share.result is not result:
                    outcome = NO_SHARE
                else:
                    # The callback goes first, since appending it is the one step that can fail.
                    if future is not None:
                        result._callbacks.append(future)
                    outcome = builder.append(record)
                    if outcome == APPENDED:
                        place = builder.record_count - 1
                        share.put(place, account.record_count)
                        account.record_count += 1
                    elif future is not None:
                        del result._callbacks[PyList_GET_SIZE(result._callbacks) - 1]
                    if future is not None and outcome == APPENDED:
                        future._result = result
                        future._index = place
            if outcome == APPENDED:
                if place == 0:
                    result.created_ms = path._clock.now_ms()
                    path._post(queue)
                elif builder.size_bytes >= builder.limit_bytes:
                    path._post(queue)
                return 0
            if outcome == NO_SHARE:
                self._open_share(queue, result)
            else:
                self._stamp_life = 0
                path._make_room(routes, queue, builder, outcome, request)

    cdef BatchShare _share_at(self, Py_ssize_t index):
        """Return this call's latest share for the partition, with memory for one more record."""
        cdef BatchShare share
        # The topic may have grown since the call began.
        while index >= PyList_GET_SIZE(self._shares):
            self._shares.append(None)
        share = <BatchShare>self._shares[index]
        if share is not None and not share.reserve():
            raise MemoryError("no memory for the account of a bulk send")
        return share

    cdef int _open_share(self, PartitionAppender queue, BatchResult result) except -1:
        """Create this call's share of the open batch, unless that has been closed."""
        cdef BatchShare share = BatchShare(self.account, result)
        cdef list listeners = []
        with cython.critical_section(queue):
            if queue.result is not result:
                return 0
            if result._listeners is None:
                result._listeners = listeners
                track_again(result)
            result._listeners.append(share)
        self._shares[queue.partition] = share
        return 0
