# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""Encodes columns into record batches, with the GIL released.

An array's rows are processed in blocks. For each block the call first plans, without the GIL, where
each row goes and how many bytes each partition needs (`arrow_plan`); then, with the GIL, it takes
memory for all of it; then it encodes the records into batches of its own (`arrow_batches`), again
without the GIL. A full batch is queued, and at the end of an array all batches are, so that no
record of an array is held back while its stream produces the next array.

Memory comes from the pool. A call that must wait for it first hands over all its batches: otherwise
it could wait for memory that its own batches hold.

Invariants.
    Rows are handled in order: at any time exactly the rows below the account's count are in a batch
    or rejected.

Thread-safety: an `ArrowCall` belongs to one thread; any number may run concurrently, and beside
    `send`.
Source: Kafka KafkaProducer.doSend (clients 4.3.1) for the treatment of each record.
"""

cimport cython
from cpython.list cimport PyList_GET_SIZE
from libc.stdint cimport int32_t, int64_t

from kprod._core.send.send_path cimport BESIDES_BYTES_MAX, SendPath
from kprod._core.arrow.arrow_batches cimport ArrowBatches, Slot
from kprod._core.arrow.arrow_columns cimport read_number
from kprod._core.arrow.arrow_plan cimport BLOCK_ROWS, BlockPlan, STICKY_SLOT
from kprod._core.arrow.arrow_rows cimport (
    PARTITION_UNKNOWN,
    ROW_CHANGED,
    ROW_TOO_LARGE,
    ArrowRows,
    RowLook,
)
from kprod._core.record.batch_builder cimport APPENDED, NEED_CHUNKS, BatchBuilder, RecordFields
from kprod._core.send.bulk_send cimport BulkCall
from kprod._core.send.bulk_share cimport BatchShare
from kprod._core.memory.chunk_pool cimport ChunkPool
from kprod._core.layout cimport BATCH_OVERHEAD_BYTES
from kprod._core.send.partition_appender cimport try_take

from kprod._core.send.bulk_send import UNENDURED
from kprod.errors import RecordTooLarge

cdef enum:
    # Fewer rows take less time than reacquiring the GIL may take.
    FEW_ROWS = 512
    # A single request for memory is at most the pool's capacity divided by this.
    POOL_SHARE = 4

cdef const unsigned char* NO_HEADERS = b"\x00"


cdef class ArrowCall(BulkCall):
    """One send of columns and its progress.

    Args:
        path: The producer's send path.
        topic: Name of the topic.
        rows: Rows of the table.
    """

    def __init__(self, SendPath path not None, topic, ArrowRows rows not None):
        BulkCall.__init__(self, path, topic)
        # The values in columns are encoded already.
        self._has_serializers = False
        self._use(rows)
        self._batches = ArrowBatches(path, self.routes, self.account)

    def run_table(self) -> None:
        """Send all arrays.

        Raises:
            ValueError: An array is broken.
            SerializationError: The stream failed.
            KprodError: No further record can be appended.
        """
        try:
            while self._send_next():
                self._batches.splice_all()
                self._path.hooks.check_signals()
        finally:
            # Rows that were handled are sent however the call ends.
            self._batches.splice_all()

    def append(self, ArrowRows rows not None) -> None:
        """Send all arrays of a further table as `run_table` does, but keep the batches open.

        The caller must call `end` in any case, and should do so soon: until then the open batches
        are not sent, and hold memory that nobody can wait for.
        """
        if rows is not self._rows:  # the first table's are in use
            self._use(rows)
        while self._send_next():
            self._path.hooks.check_signals()

    def end(self) -> None:
        """Queue the open batches, after the last table."""
        self._batches.splice_all()

    cdef int _use(self, ArrowRows rows) except -1:
        rows.row_bytes_max = self._path._record_bytes_max - BESIDES_BYTES_MAX
        self._rows = rows
        self._plan = BlockPlan(self._path, self.routes, rows)
        return 0

    cdef bint _send_next(self) except -1:
        """Send the table's next array; return False if there is none."""
        if not self._rows.source.advance():
            return False
        row_count = self._rows.bind()
        self._first_call_index = self.account.record_count
        if self._path._has_interceptors or self._path._has_partitioner:
            self._send_singly(row_count)
        else:
            self._send_array(row_count)
        return True

    cdef int _send_array(self, int64_t row_count) except -1:
        cdef int64_t row = 0
        while row < row_count:
            row = self._send_block(row, row_count)
            self._path.hooks.check_signals()
        return 0

    cdef int64_t _send_block(self, int64_t first, int64_t row_count) except -1:
        """Send some rows; return the first of the others."""
        cdef int64_t end = min(first + BLOCK_ROWS, row_count)
        cdef int64_t row = first
        cdef bint is_long = end - first > FEW_ROWS
        cdef Stop stop
        cdef int32_t* routes = self._plan.routes
        self._look_around()
        if is_long:
            with nogil:
                end = self._plan.route(first, end)
        else:
            end = self._plan.route(first, end)
        self._prepare_block()
        while True:
            if is_long:
                with nogil:
                    stop = self._encode(&row, first, end)
            else:
                stop = self._encode(&row, first, end)
            self.account.record_count = self._first_call_index + row
            if stop == ROWS_ENDED:
                break
            if stop == ROW_REJECTED:
                row += self._reject_row(row, first)
            elif stop == NO_MEMORY:
                raise MemoryError("no memory for the account of a bulk send")
            elif self._make_private_room(routes[row - first], row, stop):
                self._prepare_rest(row, first, end)
        return end

    cdef int _look_around(self) except -1:
        """Read the state that may change between blocks: closing, partitions, turns, time."""
        cdef SendPath path = self._path
        cdef Py_ssize_t partition_count
        if path.closed_error is not None:
            raise path.closed_error()
        partition_count = min(self.routes.partition_count, PyList_GET_SIZE(self.routes.queues))
        if partition_count < 1:
            raise IndexError(f"topic {self.routes.name!r} has no partition")
        self._batches.follow_topic()
        self._plan.begin(self._batches.slot_count, partition_count)
        self._clock_ms = path._clock.own_timestamp_ms(&path._stamp)
        return 0

    # With the GIL released: encoding records.

    @cython.nonecheck(False)
    cdef Stop _encode(self, int64_t* row, int64_t first, int64_t end) noexcept nogil:
        """Append rows to their slots' batches; stop at a row that needs any other step."""
        cdef const int32_t* routes = self._plan.routes
        cdef Slot* slot
        cdef int32_t route
        cdef int64_t run
        cdef Stop stop = ROWS_ENDED
        while row[0] < end:
            route = routes[row[0] - first]
            if route < 0:
                return ROW_REJECTED
            slot = &self._batches.slots[
                self._batches.sticky_slot if route == STICKY_SLOT else route
            ]
            if slot.builder == NULL:
                return NO_PRIVATE_BATCH
            if not (<BatchShare>slot.share).reserve():
                return NO_MEMORY
            # Consecutive rows for one slot are recorded as one span.
            run = 1
            while row[0] + run < end and routes[row[0] + run - first] == route:
                run += 1
            stop = self._encode_run(row, row[0] + run, first, slot)
            if stop != ROWS_ENDED:
                return stop
        return ROWS_ENDED

    @cython.nonecheck(False)
    cdef Stop _encode_run(
        self, int64_t* row, int64_t end, int64_t first, Slot* slot
    ) noexcept nogil:
        """Append rows of one slot to its batch; stop at a row that needs any other step."""
        cdef RecordFields record
        cdef RowLook look
        cdef int64_t begin = row[0]
        cdef int64_t here = begin
        cdef Stop stop = ROWS_ENDED
        cdef int outcome
        record.key = NULL
        record.key_bytes = -1
        record.headers = NO_HEADERS
        record.headers_bytes = 1
        record.timestamp_ms = self._clock_ms
        while here < end:
            if not self._rows.read(here, &record):
                self._plan.routes[here - first] = min(
                    <int32_t>self._rows.look(here, &look), ROW_CHANGED
                )
                stop = ROW_REJECTED
                break
            outcome = (<BatchBuilder>slot.builder).append(&record)
            if outcome != APPENDED:
                stop = NEEDS_CHUNKS if outcome == NEED_CHUNKS else IS_FULL
                break
            # A row may lack a timestamp although others have one.
            record.timestamp_ms = self._clock_ms
            here += 1
        if here > begin:
            (<BatchShare>slot.share).put_run(
                (<BatchBuilder>slot.builder).record_count - <int32_t>(here - begin),
                self._first_call_index + begin, <int32_t>(here - begin)
            )
        row[0] = here
        return stop

    # With the GIL held: memory, rejected rows, queues.

    cdef int _prepare_block(self) except -1:
        """Give the slots the memory that the block needs, as far as possible without waiting."""
        cdef Py_ssize_t index
        self._plan.keep_turn()
        self._rows.make_room()
        for index in range(self._plan.touched_count):
            if not self._open(self._resolved(self._plan.touched[index])):
                return 0
        return self._lengthen_all()

    cdef int _prepare_rest(self, int64_t row, int64_t first, int64_t end) except -1:
        """Do the same for the rest of a block, the slots of the next rows first."""
        cdef int32_t route
        for row in range(row, end):
            route = self._plan.routes[row - first]
            if route >= 0 and not self._open(self._resolved(route)):
                return 0
        return self._lengthen_all()

    cdef bint _open(self, Py_ssize_t slot) except -1:
        """Open a slot's batch on one chunk, unless it is open; False if there is no memory."""
        if self._batches.slots[slot].builder != NULL:
            return True
        chunks = try_take(self._path._pool, 1, self._is_large(slot))
        if chunks is None:
            return False
        self._batches.open_slot(slot, chunks)
        return True

    cdef int _lengthen_all(self) except -1:
        """Extend the open batches of the block's slots as far as memory is free."""
        cdef Py_ssize_t index
        cdef Py_ssize_t slot
        for index in range(self._plan.touched_count):
            slot = self._resolved(self._plan.touched[index])
            if self._batches.slots[slot].builder != NULL:
                self._batches.lengthen(slot, self._planned_bytes(slot), 0)
        return 0

    cdef bint _is_large(self, Py_ssize_t slot) noexcept:
        """Return whether a slot needs more for the block than a small chunk."""
        return (
            self._planned_bytes(slot) + BATCH_OVERHEAD_BYTES > self._path._pool.small_chunk_bytes
        )

    cdef Py_ssize_t _resolved(self, Py_ssize_t slot) noexcept:
        """Return a slot; for `STICKY_SLOT`, that of the current sticky partition."""
        return self._batches.sticky_slot if slot == STICKY_SLOT else slot

    cdef int64_t _planned_bytes(self, Py_ssize_t slot) noexcept:
        """Return the bytes that the remaining rows of the block need of a partition's slot."""
        cdef int64_t planned_bytes = self._plan.planned_bytes(slot)
        if slot == self._batches.sticky_slot:
            planned_bytes += self._plan.planned_bytes(STICKY_SLOT)
        return planned_bytes

    cdef bint _make_private_room(self, Py_ssize_t route, int64_t row, Stop stop) except -1:
        """Open a batch or take memory for the current row, to be retried; True after a wait."""
        cdef SendPath path = self._path
        cdef ArrowBatches batches = self._batches
        cdef Py_ssize_t slot = self._resolved(route)
        cdef int64_t chunk_bytes = path._pool.large_chunk_bytes
        cdef int64_t size = self._rows.size_of(row) + BESIDES_BYTES_MAX
        cdef Py_ssize_t chunk_count = (size + chunk_bytes - 1) // chunk_bytes
        cdef int64_t waited_ms = 0
        cdef list spare = []
        if path.closed_error is not None:
            raise path.closed_error()
        if stop == NEEDS_CHUNKS and batches.lengthen(slot, self._planned_bytes(slot), size):
            return False
        if stop != NO_PRIVATE_BATCH:
            batches.splice(slot)
            return False
        chunks = try_take(path._pool, chunk_count, True)
        if chunks is None:
            batches.splice_all()
            chunks = path._take(max(size, self._short_bytes()), True, &waited_ms)
            spare = chunks[chunk_count:]
            del chunks[chunk_count:]
            self._clock_ms = path._clock.own_timestamp_ms(&path._stamp)
            slot = self._resolved(route)
        try:
            batches.open_slot(slot, chunks)
        finally:
            path._pool.give_back_chunks(spare)
        if not spare:
            batches.lengthen(slot, self._planned_bytes(slot), 0)
        return bool(spare)

    cdef int64_t _short_bytes(self) noexcept:
        """Return the bytes to wait for, where a row finds no memory: as many as the block needs.

        With memory for its own slot only, the next slot's row would have to wait as well, and each
        wait splices batches of a few records.
        """
        cdef ChunkPool pool = self._path._pool
        cdef int64_t wanted_bytes = 0
        cdef Py_ssize_t index
        cdef Py_ssize_t slot
        for index in range(self._plan.touched_count):
            slot = self._resolved(self._plan.touched[index])
            if self._is_large(slot):
                wanted_bytes += self._planned_bytes(slot) + pool.large_chunk_bytes
            else:
                wanted_bytes += pool.small_chunk_bytes
        return min(wanted_bytes, pool.capacity_bytes // POOL_SHARE)

    cdef bint _reject_row(self, int64_t row, int64_t first) except -1:
        """Count a row as rejected; return False if its partition has appeared: try it again."""
        cdef int32_t fault = self._plan.routes[row - first]
        cdef int64_t number = 0
        cdef int64_t waited_ms = 0
        cdef RecordFields record
        try:
            if fault == PARTITION_UNKNOWN:
                read_number(&self._rows.columns.partition, row, &number)
                if self.routes.partition_count <= number < self._missing_from:
                    # The row waits for its partition; the batches need not wait with it.
                    self._batches.splice_all()
                number = self._given_index(&record, number, &waited_ms)
                self._batches.grow()
                self._plan.routes[row - first] = <int32_t>number + 1
                return False
            if fault == ROW_TOO_LARGE:
                size = self._rows.size_of(row) + BESIDES_BYTES_MAX
                error = RecordTooLarge(self._path.hooks.too_large_text(self.routes.name, size))
            else:
                error = self._rows.fault_of(row, fault)
        except Exception as raised:
            if isinstance(raised, UNENDURED):
                raise
            error = raised
        self.account.reject(error)
        return True

    # Sending one row at a time, which interceptors and a custom partitioner need.

    def _send_singly(self, int64_t row_count) -> None:
        """Send rows as `send_many` does, since interceptors or a partitioner must see each."""
        cdef int64_t row
        for row in range(row_count):
            try:
                self._is_checking = True
                value, key, headers, partition, timestamp_ms = self._rows.row_at(row)
                self._send(value, key, headers, partition, timestamp_ms)
            except Exception as error:
                if not self._is_checking or isinstance(error, UNENDURED):
                    raise
                self._is_checking = False
                self.account.reject(error)
            if row % FEW_ROWS == 0:
                self._path.hooks.check_signals()
