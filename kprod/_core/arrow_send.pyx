# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Columns into record batches, with the interpreter lock given up.

An array's rows are taken in blocks. For each block, first every row's partition and about how many
bytes that partition needs; then, with the lock, memory for all of it; then the records. They go
into batches of this call's own, one for each partition, which nobody else knows. A batch that is
full, and at the end of an array each of them, is put whole behind its queue's others, under the
queue's lock; so nothing of an array is held back while its stream is asked for the next one.

The open batch of that queue, if any, takes no further records: what is sent after the columns goes
behind them.

Memory comes from the pool. Who must wait for it first hands over all it holds: memory that waits
with its records for more memory could wait for itself.

Invariants.
    Rows are dealt with in order: at any time those below the tally's count, and no others, are in
    a batch or refused.
    A batch of the call's own has no request, no timer and no other thread.

Thread-safety: an `ArrowCall` is its thread's; any number may run at once, and beside `send`.
Source: Kafka KafkaProducer.doSend (clients 4.3.1) for what must hold for each record.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from kprod._core.append cimport PartitionHead, SendPath
from kprod._core.arrow_abi cimport ArrowSchema, is_set
from kprod._core.arrow_columns cimport (
    CELL_FAULTY,
    CELL_FULL,
    CELL_NULL,
    BytesColumn,
    ColumnPlan,
    Window,
    check_array,
    find_child,
    plan_bytes,
    plan_headers,
    plan_number,
    read_bytes,
    read_items,
    read_number,
    validity_of,
)
from kprod._core.arrow_source cimport ArrowSource
from kprod._core.batch cimport APPENDED, NEED_CHUNKS, BatchBuilder, RecordFields
from kprod._core.bulk cimport BulkCall
from kprod._core.chunks cimport ChunkChain, ChunkPool
from kprod._core.future cimport BatchResult
from kprod._core.key_hash cimport hash_key
from kprod._core.layout cimport BATCH_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES_MAX
from kprod._core.tally cimport BatchShare
from kprod._core.varint cimport put_varint, varint_size

from kprod._core.bulk import UNENDURED
from kprod.errors import Persistence, RecordTooLarge

cdef enum:
    # Rows whose routes are known at a time, and about how many bytes they may need.
    BLOCK_ROWS = 8192
    BLOCK_BYTES = 1048576
    # Fewer rows take less time than getting the interpreter lock back may.
    FEW_ROWS = 512
    # Lengths, attributes and deltas of most records; what is missing is found out.
    RECORD_BESIDES_BYTES = 14
    LENGTHS_BYTES_MAX = 10
    STICKY_SLOT = 0
    # One request for memory is at most this part of all.
    POOL_SHARE = 4
    HEADERS_BYTES_MAX = 0x7FFFFFFF

cdef enum:
    # Why a row goes nowhere.
    ROW_CHANGED = -1
    ROW_IS_NULL = -2
    PARTITION_UNKNOWN = -3
    TIME_UNSOUND = -4
    HEADERS_UNSOUND = -5
    ROW_TOO_LARGE = -6

cdef const unsigned char* NO_HEADERS = b"\x00"
cdef int64_t INT64_MAX = <int64_t>0x7FFFFFFFFFFFFFFF


cdef class ArrowCall(BulkCall):
    """One send of columns, as far as it has come.

    Args:
        path: The producer's.
        topic: Name of the topic.
        source: The table.
        names: Of the columns: value, key, headers, partition, timestamp; None where there is none.

    Raises:
        ValueError: There is no such column.
        TypeError: A column's type cannot be sent.
    """

    def __cinit__(self, *args):
        self._routes = <int32_t*>PyMem_Malloc(BLOCK_ROWS * sizeof(int32_t))
        if self._routes == NULL:
            raise MemoryError("no memory for the routes of a block of rows")

    def __dealloc__(self):
        PyMem_Free(self._routes)
        PyMem_Free(self._slots)
        PyMem_Free(self._touched)
        PyMem_Free(self._section)
        PyMem_Free(self._turns)

    def __init__(self, SendPath path not None, topic, ArrowSource source not None, names):
        cdef ArrowSchema* schema = source.schema
        cdef ColumnPlan plan
        if schema.format == NULL or <bytes>schema.format != b"+s" or schema.dictionary != NULL:
            raise TypeError(
                "send_arrow takes a table or a record batch, whose columns have names; put a single"
                " array into one, as in pyarrow.table({'value': array})"
            )
        if schema.n_children and schema.children == NULL:
            raise ValueError("a broken Arrow schema: its columns are not there")
        for role, name in names.items():
            if name is None:
                continue
            position = find_child(schema, name, role)
            if role == "headers":
                plan = plan_headers(schema, position)
            elif role in {"partition", "timestamp"}:
                plan = plan_number(schema, position, role)
            else:
                plan = plan_bytes(schema, position, role)
            self._take_plan(role, plan)
        BulkCall.__init__(self, path, topic)
        self._source = source
        # What is in a column is encoded already.
        self._has_serializers = False
        self._record_bytes_max = path._record_bytes_max
        self._besides_bytes = BATCH_OVERHEAD_BYTES + RECORD_OVERHEAD_BYTES_MAX + LENGTHS_BYTES_MAX
        self._batches = []
        self._own_shares = []

    cdef int _take_plan(self, str role, ColumnPlan plan) except -1:
        if role == "value":
            self._value = plan
        elif role == "key":
            self._key = plan
        elif role == "headers":
            self._headers = plan
        elif role == "partition":
            self._partition = plan
        else:
            self._timestamp = plan
        return 0

    def run_table(self) -> None:
        """Send all arrays.

        Raises:
            ValueError: An array is broken.
            SerializationError: The stream failed.
            KprodError: No further record can be appended.
        """
        cdef SendPath path = self._path
        try:
            while self._source.advance():
                self._bind()
                self._first_call_index = self.tally.record_count
                if path._has_interceptors or path._has_partitioner:
                    self._send_singly(self._source.array.length)
                else:
                    self._send_array(self._source.array.length)
                self._splice_all()
                path.breathe()
        finally:
            # Rows that were dealt with are sent, whatever ended the call.
            self._splice_all()

    cdef int _bind(self) except -1:
        """Check the present array, and find its columns."""
        cdef Columns* columns = &self._columns
        cdef Window window
        window.base = window.start = 0
        window.end = self._source.array.length
        check_array(self._source.array, &window, 1, "the table")
        columns.validity = validity_of(self._source.array, "the table")
        columns.offset = window.base = self._source.array.offset
        columns.has_key = self._key is not None
        columns.has_headers = self._headers is not None
        columns.has_partition = self._partition is not None
        columns.has_timestamp = self._timestamp is not None
        self._value.bind_bytes(self._source.array, &window, &columns.value)
        if columns.has_key:
            self._key.bind_bytes(self._source.array, &window, &columns.key)
        if columns.has_headers:
            self._headers.bind_headers(self._source.array, &window, &columns.headers)
        if columns.has_partition:
            self._partition.bind_number(self._source.array, &window, &columns.partition)
        if columns.has_timestamp:
            self._timestamp.bind_number(self._source.array, &window, &columns.timestamp)
            self._multiplier = self._timestamp.multiplier
            self._divisor = self._timestamp.divisor
        return 0

    cdef int _send_array(self, int64_t row_count) except -1:
        cdef int64_t row = 0
        while row < row_count:
            row = self._send_block(row, row_count)
            self._path.breathe()
        return 0

    cdef int64_t _send_block(self, int64_t first, int64_t row_count) except -1:
        """Send some rows; returns the first one that is left."""
        cdef int64_t end = min(first + BLOCK_ROWS, row_count)
        cdef int64_t row = first
        cdef bint is_long = end - first > FEW_ROWS
        cdef Stop stop
        cdef Py_ssize_t index
        self._look_around()
        if is_long:
            with nogil:
                end = self._route(first, end)
        else:
            end = self._route(first, end)
        self._prepare_block()
        while True:
            if is_long:
                with nogil:
                    stop = self._encode(&row, first, end)
            else:
                stop = self._encode(&row, first, end)
            self.tally.record_count = self._first_call_index + row
            if stop == ROWS_ENDED:
                break
            if stop == ROW_REFUSED:
                row += self._refuse_row(row, first)
            elif stop == NO_MEMORY:
                raise MemoryError("no memory for the account of a bulk send")
            else:
                self._make_private_room(self._routes[row - first], row, stop)
        for index in range(self._touched_count):
            self._slots[self._touched[index]].planned_bytes = 0
        return end

    cdef int _look_around(self) except -1:
        """Take over, for one block, what may change: partitions, turns, the time, the end."""
        cdef SendPath path = self._path
        cdef Py_ssize_t wanted
        cdef Py_ssize_t index
        cdef int32_t* turns
        if path.refusal is not None:
            raise path.refusal()
        self._partition_count = self.head.partition_count
        self._grow_slots()
        self._touched_count = 0
        self._headers_bytes_max = 1
        self._clock_ms = path._clock.timestamp_ms()
        if path._takes_turns:
            queue_turns = self.head.turns or list(range(self._partition_count))
            wanted = len(queue_turns)
            turns = <int32_t*>PyMem_Realloc(self._turns, wanted * sizeof(int32_t))
            if turns == NULL:
                raise MemoryError("no memory for the turns of partitions")
            self._turns = turns
            self._turn_count = wanted
            for index in range(wanted):
                turns[index] = queue_turns[index]
            self._turn = self.head._turn
        return 0

    cdef int _grow_slots(self) except -1:
        """Have a slot for each partition that there is, and the sticky one's."""
        cdef Py_ssize_t wanted = PyList_GET_SIZE(self.head.queues) + 1
        cdef Slot* slots
        cdef Py_ssize_t* touched
        if wanted <= self._slot_count:
            return 0
        slots = <Slot*>PyMem_Realloc(self._slots, wanted * sizeof(Slot))
        if slots == NULL:
            raise MemoryError("no memory for the slots of partitions")
        self._slots = slots
        touched = <Py_ssize_t*>PyMem_Realloc(self._touched, wanted * sizeof(Py_ssize_t))
        if touched == NULL:
            raise MemoryError("no memory for the slots of partitions")
        self._touched = touched
        self._batches += [None] * (wanted - self._slot_count)
        self._own_shares += [None] * (wanted - self._slot_count)
        memset(&slots[self._slot_count], 0, (wanted - self._slot_count) * sizeof(Slot))
        self._slot_count = wanted
        return 0

    # Without the lock: where rows go, and their bytes.

    cdef int64_t _route(self, int64_t first, int64_t end) noexcept nogil:
        """Find each row's slot, until a block's worth of bytes; returns the first row left."""
        cdef int64_t row
        cdef int64_t size
        cdef int64_t total_bytes = 0
        cdef int32_t slot
        for row in range(first, end):
            size = 0
            slot = self._slot_of(row, &size)
            self._routes[row - first] = slot
            if slot < 0:
                continue
            if self._slots[slot].planned_bytes == 0:
                self._touched[self._touched_count] = slot
                self._touched_count += 1
            self._slots[slot].planned_bytes += size + RECORD_BESIDES_BYTES
            total_bytes += size + RECORD_BESIDES_BYTES
            if total_bytes >= BLOCK_BYTES:
                return row + 1
        return end

    cdef int32_t _slot_of(self, int64_t row, int64_t* size) noexcept nogil:
        """A row's slot, or why it goes nowhere, and the bytes of its key, value and headers."""
        cdef Columns* columns = &self._columns
        cdef const uint8_t* key = NULL
        cdef const uint8_t* value = NULL
        cdef int64_t key_bytes = -1
        cdef int64_t value_bytes = -1
        cdef int64_t headers_bytes = 1
        cdef int64_t number = 0
        cdef int cell
        if columns.validity != NULL and not is_set(columns.validity, columns.offset + row):
            return ROW_IS_NULL
        if read_bytes(&columns.value, row, &value, &value_bytes) == CELL_FAULTY:
            return ROW_CHANGED
        if columns.has_key and read_bytes(&columns.key, row, &key, &key_bytes) == CELL_FAULTY:
            return ROW_CHANGED
        if columns.has_headers:
            headers_bytes = self._headers_bytes(row)
            if headers_bytes < 0:
                return <int32_t>headers_bytes
        if columns.has_timestamp and self._time_of(row, &number) == CELL_FAULTY:
            return TIME_UNSOUND
        if max(key_bytes, value_bytes, headers_bytes) > self._record_bytes_max:
            return ROW_TOO_LARGE
        size[0] = max(key_bytes, 0) + max(value_bytes, 0) + headers_bytes
        if size[0] + self._besides_bytes > self._record_bytes_max:
            return ROW_TOO_LARGE
        self._headers_bytes_max = max(self._headers_bytes_max, headers_bytes)
        if columns.has_partition:
            cell = read_number(&columns.partition, row, &number)
            if cell == CELL_FULL:
                if number < 0 or number >= self._partition_count:
                    return PARTITION_UNKNOWN
                return <int32_t>number + 1
        if self._turn_count:
            self._turn += 1
            return self._turns[(self._turn - 1) % self._turn_count] + 1
        if key_bytes < self._path._hashed_key_bytes_min:
            return STICKY_SLOT
        return 1 + <int32_t>(
            hash_key(self._path._key_hash, key, key_bytes) % <unsigned int>self._partition_count
        )

    cdef int _time_of(self, int64_t row, int64_t* time_ms) noexcept nogil:
        """A row's timestamp in milliseconds; faulty before 1970 and past 64 bits."""
        cdef int cell = read_number(&self._columns.timestamp, row, time_ms)
        if cell != CELL_FULL:
            return cell
        if time_ms[0] < 0 or time_ms[0] > INT64_MAX // self._multiplier:
            return CELL_FAULTY
        time_ms[0] = time_ms[0] * self._multiplier // self._divisor
        return CELL_FULL

    cdef int64_t _headers_bytes(self, int64_t row) noexcept nogil:
        """The size of a row's header section, or why it has none."""
        cdef Columns* columns = &self._columns
        cdef int64_t item
        cdef int64_t end
        cdef int64_t total_bytes
        cdef int64_t size = 0
        cdef const uint8_t* start = NULL
        cdef int cell = read_items(&columns.headers, row, &item, &end)
        if cell == CELL_FAULTY:
            return ROW_CHANGED
        if end - item > HEADERS_BYTES_MAX:
            return ROW_TOO_LARGE
        total_bytes = varint_size(<int32_t>(end - item))
        for item in range(item, end):
            if columns.headers.item_validity != NULL and not is_set(
                columns.headers.item_validity, columns.headers.item_offset + item
            ):
                return HEADERS_UNSOUND
            cell = read_bytes(&columns.headers.names, item, &start, &size)
            if cell != CELL_FULL:
                return ROW_CHANGED if cell == CELL_FAULTY else HEADERS_UNSOUND
            if not is_utf8(start, size):
                return HEADERS_UNSOUND
            total_bytes += 5 + size
            cell = read_bytes(&columns.headers.values, item, &start, &size)
            if cell == CELL_FAULTY:
                return ROW_CHANGED
            total_bytes += 5 + (size if cell == CELL_FULL else 0)
            if total_bytes > HEADERS_BYTES_MAX:
                return ROW_TOO_LARGE
        return total_bytes

    cdef Stop _encode(self, int64_t* row, int64_t first, int64_t end) noexcept nogil:
        """Append rows to their slots' batches until something is missing."""
        cdef RecordFields record
        cdef Slot* slot
        cdef int32_t route
        cdef int outcome
        record.headers = NO_HEADERS
        record.headers_bytes = 1
        while row[0] < end:
            route = self._routes[row[0] - first]
            if route < 0:
                return ROW_REFUSED
            slot = &self._slots[route]
            if slot.builder == NULL:
                return NO_PRIVATE_BATCH
            if not self._read_row(row[0], &record):
                self._routes[row[0] - first] = ROW_CHANGED
                return ROW_REFUSED
            if not (<BatchShare>slot.share).reserve():
                return NO_MEMORY
            outcome = (<BatchBuilder>slot.builder).append(&record)
            if outcome != APPENDED:
                return NEEDS_CHUNKS if outcome == NEED_CHUNKS else IS_FULL
            (<BatchShare>slot.share).put(
                (<BatchBuilder>slot.builder).record_count - 1, self._first_call_index + row[0]
            )
            row[0] += 1
        return ROWS_ENDED

    cdef bint _read_row(self, int64_t row, RecordFields* record) noexcept nogil:
        """A row's fields; False when its array was changed since it was checked."""
        cdef Columns* columns = &self._columns
        cdef int64_t size = -1
        cdef int cell = read_bytes(&columns.value, row, &record.value, &size)
        record.value_bytes = size if cell == CELL_FULL else -1
        if cell == CELL_FAULTY or size > self._record_bytes_max:
            return False
        record.key = NULL
        record.key_bytes = -1
        record.timestamp_ms = self._clock_ms
        if columns.has_key:
            cell = read_bytes(&columns.key, row, &record.key, &size)
            record.key_bytes = size if cell == CELL_FULL else -1
            if cell == CELL_FAULTY or record.key_bytes > self._record_bytes_max:
                return False
        if columns.has_timestamp:
            cell = self._time_of(row, &size)
            if cell == CELL_FAULTY:
                return False
            if cell == CELL_FULL:
                record.timestamp_ms = size
        return not columns.has_headers or self._write_headers(row, record)

    cdef bint _write_headers(self, int64_t row, RecordFields* record) noexcept nogil:
        """Encode a row's headers into the call's scratch memory."""
        cdef Columns* columns = &self._columns
        cdef uint8_t* at = self._section
        cdef uint8_t* limit = at + self._section_room_bytes
        cdef const uint8_t* start = NULL
        cdef int64_t size = 0
        cdef int64_t item
        cdef int64_t end
        cdef int part
        cdef int cell = read_items(&columns.headers, row, &item, &end)
        if cell == CELL_FAULTY or limit - at < 5 or end - item > HEADERS_BYTES_MAX:
            return False
        at = put_varint(at, <int32_t>(end - item))
        for item in range(item, end):
            for part in range(2):
                cell = read_bytes(
                    &columns.headers.names if part == 0 else &columns.headers.values,
                    item, &start, &size
                )
                if cell == CELL_FAULTY or (part == 0 and cell == CELL_NULL):
                    return False
                if cell == CELL_NULL:
                    size = -1
                if max(size, 0) > limit - at - 5:
                    return False
                at = put_varint(at, <int32_t>size)
                if size > 0:
                    memcpy(at, start, size)
                    at += size
        record.headers = self._section
        record.headers_bytes = at - self._section
        return True

    # With the lock: memory, refusals, queues.

    cdef int _prepare_block(self) except -1:
        """Lend the block's slots what it will need, as far as there is memory without waiting."""
        cdef Py_ssize_t index
        cdef Py_ssize_t slot
        cdef bint large
        cdef uint8_t* section
        if self._turn_count:
            self.head._turn = <Py_ssize_t>self._turn
        # Room for the longest section as it was estimated, and a varint more.
        if self._section_room_bytes < self._headers_bytes_max + 10:
            section = <uint8_t*>PyMem_Realloc(self._section, self._headers_bytes_max + 10)
            if section == NULL:
                raise MemoryError("no memory for the headers of a record")
            self._section = section
            self._section_room_bytes = self._headers_bytes_max + 10
        for index in range(self._touched_count):
            slot = self._touched[index]
            if self._slots[slot].builder == NULL:
                large = (
                    self._slots[slot].planned_bytes + BATCH_OVERHEAD_BYTES
                    > self._path._pool.small_chunk_bytes
                )
                chunks = self._path._try_take(1, large)
                if chunks is None:
                    return 0
                self._open_slot(slot, chunks)
            self._lengthen(slot)
        return 0

    cdef int _open_slot(self, Py_ssize_t slot, list chunks) except -1:
        """Begin a batch for a slot on these chunks; they go back if that fails."""
        cdef SendPath path = self._path
        cdef Py_ssize_t partition = self.head.sticky if slot == STICKY_SLOT else slot - 1
        cdef ChunkChain chain
        cdef BatchShare share
        try:
            chain = ChunkChain(path._pool, chunks)
        except MemoryError:
            path._pool.give_back_chunks(chunks)
            raise
        try:
            batch = path.make_batch(self.head.queues[partition], chain)
            share = BatchShare(self.tally, batch.result)
            share.watch()
        except BaseException:
            chain.release()
            raise
        self._batches[slot] = batch
        self._own_shares[slot] = share
        self._slots[slot].builder = <PyObject*>batch.builder
        self._slots[slot].share = <PyObject*>share
        return 0

    cdef int _lengthen(self, Py_ssize_t slot) except -1:
        """Give a slot's batch what is planned for it, as far as there is memory."""
        cdef BatchBuilder builder = <BatchBuilder>self._slots[slot].builder
        cdef ChunkPool pool = self._path._pool
        cdef int64_t wanted_bytes = min(
            self._slots[slot].planned_bytes, <int64_t>(builder.limit_bytes - builder.size_bytes)
        ) - builder._room_bytes - builder._spare_bytes
        while wanted_bytes > 0:
            chunk = pool.try_take(True)
            if chunk is None:
                break
            try:
                builder.extend(chunk)
            except MemoryError:
                pool.give_back_chunks([chunk])
                raise
            wanted_bytes -= pool.large_chunk_bytes
        return 0

    cdef int _make_private_room(self, Py_ssize_t slot, int64_t row, Stop stop) except -1:
        """Let the row at hand fit its slot's batch, waiting for memory if there is none."""
        cdef SendPath path = self._path
        cdef BatchBuilder builder
        cdef int64_t waited_ms = 0
        cdef int64_t size = 0
        cdef int64_t wanted_bytes
        cdef int64_t chunk_bytes
        if path.refusal is not None:
            raise path.refusal()
        self._slot_of(row, &size)
        size += self._besides_bytes
        if stop == NEEDS_CHUNKS:
            builder = <BatchBuilder>self._slots[slot].builder
            self._slots[slot].planned_bytes = max(self._slots[slot].planned_bytes, size)
            self._lengthen(slot)
            if builder._room_bytes + builder._spare_bytes >= size:
                return 0
        if stop != NO_PRIVATE_BATCH:
            self._splice(slot)
        chunk_bytes = path._pool.large_chunk_bytes
        chunks = path._try_take((size + chunk_bytes - 1) // chunk_bytes, True)
        if chunks is None:
            self._splice_all()
            # More than the row needs: batches of one chunk each would make memory short for good.
            wanted_bytes = min(
                self._slots[slot].planned_bytes, path._pool.capacity_bytes // POOL_SHARE
            )
            chunks = path._take(max(size, wanted_bytes), True, &waited_ms)
            self._clock_ms = path._clock.timestamp_ms()
        self._open_slot(slot, chunks)
        self._lengthen(slot)
        return 0

    cdef bint _refuse_row(self, int64_t row, int64_t first) except -1:
        """Count a row as refused; False when its partition has appeared, and it may go on."""
        cdef int32_t fault = self._routes[row - first]
        cdef int64_t number = 0
        cdef int64_t waited_ms = 0
        cdef RecordFields record
        try:
            if fault == PARTITION_UNKNOWN:
                read_number(&self._columns.partition, row, &number)
                number = self._given_index(&record, number, &waited_ms)
                self._grow_slots()
                self._routes[row - first] = <int32_t>number + 1
                return False
            error = self._fault_of(row, fault)
        except Exception as raised:
            if isinstance(raised, UNENDURED):
                raise
            error = raised.with_traceback(None)
        self.tally.refuse(error)
        return True

    cdef object _fault_of(self, int64_t row, int32_t fault):
        """The error that `send` would raise for this row."""
        cdef int64_t size = 0
        cdef int64_t number = 0
        if fault == ROW_IS_NULL:
            return ValueError("the row itself is null, which is no record; leave such rows out")
        if fault == TIME_UNSOUND:
            read_number(&self._columns.timestamp, row, &number)
            return ValueError(
                f"timestamp {number} of column {self._timestamp.name!r} is before 1970, or past 64"
                " bits in milliseconds"
            )
        if fault == HEADERS_UNSOUND:
            return ValueError(
                f"a header in column {self._headers.name!r} is null, or has a key that is null or"
                " not valid UTF-8"
            )
        if fault == ROW_TOO_LARGE:
            return RecordTooLarge(self._path.too_large_text(self.head.name, self._size_of(row)))
        return ValueError("the row was changed while it was sent")

    cdef int64_t _size_of(self, int64_t row) except -1:
        """What a row that is too large takes, to say so."""
        cdef const uint8_t* start = NULL
        cdef int64_t size = 0
        cdef int64_t total_bytes = self._besides_bytes
        if read_bytes(&self._columns.value, row, &start, &size) == CELL_FULL:
            total_bytes += size
        if self._columns.has_key:
            if read_bytes(&self._columns.key, row, &start, &size) == CELL_FULL:
                total_bytes += size
        if self._columns.has_headers:
            total_bytes += max(self._headers_bytes(row), <int64_t>0)
        return total_bytes

    cdef int _splice_all(self) except -1:
        cdef Py_ssize_t slot
        for slot in range(self._slot_count):
            if self._slots[slot].builder != NULL:
                self._splice(slot)
        return 0

    cdef int _splice(self, Py_ssize_t slot) except -1:
        """Put a slot's batch behind its queue's others, whole, and tell the sender."""
        cdef SendPath path = self._path
        cdef object batch = self._batches[slot]
        cdef BatchBuilder builder = batch.builder
        cdef BatchResult result = batch.result
        cdef BatchBuilder previous = None
        cdef PartitionHead queue = <PartitionHead>self.head.queues[result.partition]
        cdef bint is_refused = False
        self._slots[slot].builder = self._slots[slot].share = NULL
        self._batches[slot] = self._own_shares[slot] = None
        builder.seal()
        if builder.record_count == 0:
            builder.chain.release()
            return 0
        with cython.critical_section(queue):
            previous = queue.builder
            if path.refusal is not None:
                is_refused = True
            elif previous is not None and previous.record_count == 0:
                # Somebody is about to append to it; his record may come after these.
                queue.batches.insert(len(queue.batches) - 1, batch)
                previous = None
            else:
                queue.builder = None
                queue.result = None
                queue.batches.append(batch)
        if is_refused:
            error = path.refusal()
            error.persistence = Persistence.NOT_PERSISTED
            result.complete(error=error)
            builder.chain.release()
            return 0
        if previous is not None:
            previous.seal()
        path._post(queue)
        if slot == STICKY_SLOT and self.head.sticky == queue.partition:
            path.roll_sticky(self.head)
        return 0

    # One by one, for whoever wants to see each record.

    def _send_singly(self, int64_t row_count) -> None:
        """Send rows as `send_many` does, since interceptors or a partitioner must see each."""
        cdef int64_t row
        for row in range(row_count):
            try:
                value, key, headers, partition, timestamp_ms = self._row(row)
                self._send(value, key, headers, partition, timestamp_ms)
            except Exception as error:
                if not self._is_checking or isinstance(error, UNENDURED):
                    raise
                self._is_checking = False
                self.tally.refuse(error.with_traceback(None))
            if row % FEW_ROWS == 0:
                self._path.breathe()

    cdef tuple _row(self, int64_t row):
        """A row as `send` would take it."""
        cdef Columns* columns = &self._columns
        cdef int64_t number = 0
        cdef int64_t item
        cdef int64_t end
        key = headers = partition = timestamp_ms = None
        self._is_checking = True
        if columns.validity != NULL and not is_set(columns.validity, columns.offset + row):
            raise self._fault_of(row, ROW_IS_NULL)
        if columns.has_key:
            key = bytes_at(&columns.key, row)
        if columns.has_headers:
            if self._headers_bytes(row) < 0:
                raise self._fault_of(row, <int32_t>self._headers_bytes(row))
            read_items(&columns.headers, row, &item, &end)
            headers = [
                (bytes_at(&columns.headers.names, at).decode(), bytes_at(&columns.headers.values, at))
                for at in range(item, end)
            ]
        if columns.has_partition:
            if read_number(&columns.partition, row, &number) == CELL_FULL:
                partition = number
        if columns.has_timestamp:
            cell = self._time_of(row, &number)
            if cell == CELL_FAULTY:
                raise self._fault_of(row, TIME_UNSOUND)
            if cell == CELL_FULL:
                timestamp_ms = number
        return bytes_at(&columns.value, row), key, headers, partition, timestamp_ms


cdef object bytes_at(const BytesColumn* column, int64_t row):
    """A copy of a byte string, or None for a null."""
    cdef const uint8_t* start = NULL
    cdef int64_t size = 0
    cdef int cell = read_bytes(column, row, &start, &size)
    if cell == CELL_FAULTY:
        raise ValueError("the row was changed while it was sent")
    if cell == CELL_NULL:
        return None
    return PyBytes_FromStringAndSize(<const char*>start, size)


cdef bint is_utf8(const uint8_t* at, int64_t size) noexcept nogil:
    """Whether this is valid UTF-8: shortest forms, no surrogates, at most U+10FFFF."""
    cdef const uint8_t* end = at + size
    cdef int more
    cdef uint8_t low
    cdef uint8_t high
    while at < end:
        if at[0] < 0x80:
            at += 1
            continue
        low = 0x80
        high = 0xBF
        if 0xC2 <= at[0] <= 0xDF:
            more = 1
        elif 0xE0 <= at[0] <= 0xEF:
            more = 2
            low = 0xA0 if at[0] == 0xE0 else 0x80
            high = 0x9F if at[0] == 0xED else 0xBF
        elif 0xF0 <= at[0] <= 0xF4:
            more = 3
            low = 0x90 if at[0] == 0xF0 else 0x80
            high = 0x8F if at[0] == 0xF4 else 0xBF
        else:
            return False
        if end - at <= more or not low <= at[1] <= high:
            return False
        at += 2
        more -= 1
        while more > 0:
            if at[0] & 0xC0 != 0x80:
                return False
            at += 1
            more -= 1
    return True
