# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
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
from cpython.list cimport PyList_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from kprod._core.append cimport BESIDES_BYTES_MAX, PartitionHead, SendPath
from kprod._core.arrow_columns cimport OFFSETS_32, OFFSETS_64, bytes_between, read_number
from kprod._core.arrow_rows cimport (
    PARTITION_UNKNOWN,
    ROW_CHANGED,
    ROW_TOO_LARGE,
    ArrowRows,
    Columns,
    RowLook,
)
from kprod._core.batch cimport APPENDED, NEED_CHUNKS, BatchBuilder, RecordFields
from kprod._core.batch_result cimport BatchResult
from kprod._core.bulk cimport BulkCall
from kprod._core.chunks cimport ChunkChain, ChunkPool
from kprod._core.key_hash cimport hash_key
from kprod._core.layout cimport BATCH_OVERHEAD_BYTES
from kprod._core.tally cimport BatchShare

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
    NULL_KEY_BYTES = -1
    # Of rows without a partition; it has no batch, but stands for the sticky partition's.
    STICKY_SLOT = 0
    # One request for memory is at most this part of all.
    POOL_SHARE = 4

cdef const unsigned char* NO_HEADERS = b"\x00"


cdef class ArrowCall(BulkCall):
    """One send of columns, as far as it has come.

    Args:
        path: The producer's.
        topic: Name of the topic.
        rows: The table's.
    """

    def __cinit__(self, *args):
        self._routes = <int32_t*>PyMem_Malloc(BLOCK_ROWS * sizeof(int32_t))
        if self._routes == NULL:
            raise MemoryError("no memory for the routes of a block of rows")

    def __dealloc__(self):
        PyMem_Free(self._routes)
        PyMem_Free(self._slots)
        PyMem_Free(self._touched)
        PyMem_Free(self._turns)

    def __init__(self, SendPath path not None, topic, ArrowRows rows not None):
        BulkCall.__init__(self, path, topic)
        # What is in a column is encoded already.
        self._has_serializers = False
        self._rows = rows
        rows.row_bytes_max = path._record_bytes_max - BESIDES_BYTES_MAX
        self._batches = []
        self._own_shares = []

    def run_table(self) -> None:
        """Send all arrays.

        Raises:
            ValueError: An array is broken.
            SerializationError: The stream failed.
            KprodError: No further record can be appended.
        """
        cdef SendPath path = self._path
        try:
            while self._rows.source.advance():
                row_count = self._rows.bind()
                self._first_call_index = self.tally.record_count
                if path._has_interceptors or path._has_partitioner:
                    self._send_singly(row_count)
                else:
                    self._send_array(row_count)
                self._splice_all()
                path.breathe()
        finally:
            # Rows that were dealt with are sent, whatever ended the call.
            self._splice_all()

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
        cdef Columns* columns = &self._rows.columns
        cdef Py_ssize_t wanted
        cdef Py_ssize_t index
        cdef int32_t* turns
        if path.refusal is not None:
            raise path.refusal()
        self._partition_count = min(
            self.head.partition_count, PyList_GET_SIZE(self.head.queues)
        )
        if self._partition_count < 1:
            raise IndexError(f"topic {self.head.name!r} has no partition")
        self._follow_topic()
        self._touched_count = 0
        # Nothing to be looked up for any row: each goes where the partition sticks.
        self._is_plain_array = (
            columns.validity == NULL and not columns.value.is_encoded
            and (columns.value.layout == OFFSETS_32 or columns.value.layout == OFFSETS_64)
            and not (columns.has_key or columns.has_headers or columns.has_partition)
            and not path._takes_turns and path._hashed_key_bytes_min > NULL_KEY_BYTES
        )
        self._clock_ms = path._clock.own_timestamp_ms(&path._stamp)
        if path._takes_turns:
            queue_turns = self.head.turns or list(range(self._partition_count))
            wanted = len(queue_turns)
            turns = <int32_t*>PyMem_Realloc(self._turns, wanted * sizeof(int32_t))
            if turns == NULL:
                raise MemoryError("no memory for the turns of partitions")
            self._turns = turns
            self._turn_count = wanted
            for index in range(wanted):
                # The topic may have grown since there were slots for it.
                turns[index] = min(<int64_t>queue_turns[index], <int64_t>self._slot_count - 2)
            self._turn = self.head._turn
        return 0

    cdef int _follow_topic(self) except -1:
        """Take over the sticky partition, which may be newer than the slots."""
        cdef Py_ssize_t sticky = self.head.sticky
        self._grow_slots()
        if not 0 <= sticky < PyList_GET_SIZE(self.head.queues):
            raise IndexError(f"the sticky partition {sticky} of {self.head.name!r} has no queue")
        self._sticky_slot = sticky + 1
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

    @cython.nonecheck(False)
    cdef int64_t _route(self, int64_t first, int64_t end) noexcept nogil:
        """Find each row's slot, until a block's worth of bytes; returns the first row left."""
        cdef int64_t row
        cdef int64_t size
        cdef int64_t total_bytes = 0
        cdef int32_t slot
        if self._is_plain_array:
            return self._route_plain(first, end)
        for row in range(first, end):
            size = RECORD_BESIDES_BYTES
            slot = self._slot_of(row, &size)
            self._routes[row - first] = slot
            if slot < 0:
                continue
            self._plan(slot, size)
            total_bytes += size
            if total_bytes >= BLOCK_BYTES:
                return row + 1
        return end

    @cython.nonecheck(False)
    cdef int64_t _route_plain(self, int64_t first, int64_t end) noexcept nogil:
        """As `_route` where every row is the sticky partition's and offsets give the sizes."""
        cdef int64_t size = bytes_between(&self._rows.columns.value, first, end)
        while size > BLOCK_BYTES and end - first > 1:
            end = first + (end - first) // 2
            size = bytes_between(&self._rows.columns.value, first, end)
        memset(self._routes, 0, (end - first) * sizeof(int32_t))
        self._plan(STICKY_SLOT, size + RECORD_BESIDES_BYTES * (end - first))
        return end

    @cython.nonecheck(False)
    cdef void _plan(self, int32_t slot, int64_t size) noexcept nogil:
        """Note how many bytes more a slot will need."""
        if self._slots[slot].planned_bytes == 0:
            self._touched[self._touched_count] = slot
            self._touched_count += 1
        self._slots[slot].planned_bytes += size

    @cython.nonecheck(False)
    cdef int32_t _slot_of(self, int64_t row, int64_t* size) noexcept nogil:
        """A row's slot, or why it goes nowhere; adds the bytes of its key, value and headers."""
        cdef RowLook look
        cdef int64_t fault = self._rows.look(row, &look)
        if fault < 0:
            return <int32_t>fault
        size[0] += look.size_bytes
        if look.has_partition:
            if look.partition < 0 or look.partition >= self._partition_count:
                return PARTITION_UNKNOWN
            return <int32_t>look.partition + 1
        if self._turn_count:
            self._turn += 1
            return self._turns[(self._turn - 1) % self._turn_count] + 1
        if look.key_bytes < self._path._hashed_key_bytes_min:
            return STICKY_SLOT
        return 1 + <int32_t>(
            hash_key(self._path._key_hash, look.key, look.key_bytes)
            % <unsigned int>self._partition_count
        )

    @cython.nonecheck(False)
    cdef Stop _encode(self, int64_t* row, int64_t first, int64_t end) noexcept nogil:
        """Append rows to their slots' batches until something is missing."""
        cdef Slot* slot
        cdef int32_t route
        cdef int64_t run
        cdef Stop stop = ROWS_ENDED
        while row[0] < end:
            route = self._routes[row[0] - first]
            if route < 0:
                return ROW_REFUSED
            slot = &self._slots[self._sticky_slot if route == STICKY_SLOT else route]
            if slot.builder == NULL:
                return NO_PRIVATE_BATCH
            if not (<BatchShare>slot.share).reserve():
                return NO_MEMORY
            # Neighbours that go the same way are one note in the account.
            run = 1
            while row[0] + run < end and self._routes[row[0] + run - first] == route:
                run += 1
            stop = self._encode_run(row, row[0] + run, first, slot)
            if stop != ROWS_ENDED:
                return stop
        return ROWS_ENDED

    cdef Stop _encode_run(
        self, int64_t* row, int64_t end, int64_t first, Slot* slot
    ) noexcept nogil:
        """Append rows that all go to one slot until something is missing."""
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
                self._routes[here - first] = min(<int32_t>self._rows.look(here, &look), ROW_CHANGED)
                stop = ROW_REFUSED
                break
            outcome = (<BatchBuilder>slot.builder).append(&record)
            if outcome != APPENDED:
                stop = NEEDS_CHUNKS if outcome == NEED_CHUNKS else IS_FULL
                break
            # A row may have no timestamp though others have one.
            record.timestamp_ms = self._clock_ms
            here += 1
        if here > begin:
            (<BatchShare>slot.share).put_run(
                (<BatchBuilder>slot.builder).record_count - <int32_t>(here - begin),
                self._first_call_index + begin, <int32_t>(here - begin)
            )
        row[0] = here
        return stop

    # With the lock: memory, refusals, queues.

    cdef int _prepare_block(self) except -1:
        """Lend the block's slots what it will need, as far as there is memory without waiting."""
        cdef Py_ssize_t index
        cdef Py_ssize_t slot
        cdef bint large
        if self._turn_count:
            self.head._turn = <Py_ssize_t>self._turn
        self._rows.make_room()
        for index in range(self._touched_count):
            slot = self._resolved(self._touched[index])
            if self._slots[slot].builder == NULL:
                large = (
                    self._planned_bytes(slot) + BATCH_OVERHEAD_BYTES
                    > self._path._pool.small_chunk_bytes
                )
                chunks = self._path._try_take(1, large)
                if chunks is None:
                    return 0
                self._open_slot(slot, chunks)
            self._lengthen(slot, 0)
        return 0

    cdef Py_ssize_t _resolved(self, Py_ssize_t slot) noexcept:
        """The slot of the partition that records without one go to now, for theirs."""
        return self._sticky_slot if slot == STICKY_SLOT else slot

    cdef int64_t _planned_bytes(self, Py_ssize_t slot) noexcept:
        """What the block's rows ahead will need of a partition's slot."""
        cdef int64_t planned_bytes = self._slots[slot].planned_bytes
        if slot == self._sticky_slot:
            planned_bytes += self._slots[STICKY_SLOT].planned_bytes
        return planned_bytes

    cdef int _open_slot(self, Py_ssize_t slot, list chunks) except -1:
        """Begin a batch for a slot on these chunks; they go back if that fails."""
        cdef SendPath path = self._path
        cdef ChunkChain chain
        cdef BatchShare share
        try:
            chain = ChunkChain(path._pool, chunks)
        except MemoryError:
            path._pool.give_back_chunks(chunks)
            raise
        try:
            batch = path.make_batch(self.head.queues[slot - 1], chain)
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

    cdef bint _lengthen(self, Py_ssize_t slot, int64_t need_bytes) except -1:
        """Give a slot's batch what is planned, as far as there is memory; whether `need` fits."""
        cdef BatchBuilder builder = <BatchBuilder>self._slots[slot].builder
        cdef ChunkPool pool = self._path._pool
        cdef int64_t wanted_bytes = min(
            max(self._planned_bytes(slot), need_bytes),
            <int64_t>(builder.limit_bytes - builder.size_bytes),
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
        return builder._room_bytes + builder._spare_bytes >= need_bytes

    cdef int _make_private_room(self, Py_ssize_t route, int64_t row, Stop stop) except -1:
        """Do what the row at hand waits for; then it is tried again."""
        cdef SendPath path = self._path
        cdef Py_ssize_t slot = self._resolved(route)
        cdef int64_t chunk_bytes = path._pool.large_chunk_bytes
        cdef int64_t size = self._rows.size_of(row) + BESIDES_BYTES_MAX
        cdef int64_t waited_ms = 0
        cdef int64_t wanted_bytes
        if path.refusal is not None:
            raise path.refusal()
        if stop == NEEDS_CHUNKS and self._lengthen(slot, size):
            return 0
        if stop != NO_PRIVATE_BATCH:
            return self._splice(slot)
        chunks = path._try_take((size + chunk_bytes - 1) // chunk_bytes, True)
        if chunks is None:
            # More than the row needs: batches of one chunk each would make memory short for good.
            wanted_bytes = min(
                self._planned_bytes(slot), path._pool.capacity_bytes // POOL_SHARE
            )
            self._splice_all()
            chunks = path._take(max(size, wanted_bytes), True, &waited_ms)
            self._clock_ms = path._clock.own_timestamp_ms(&path._stamp)
            slot = self._resolved(route)
        self._open_slot(slot, chunks)
        self._lengthen(slot, 0)
        return 0

    cdef bint _refuse_row(self, int64_t row, int64_t first) except -1:
        """Count a row as refused; False when its partition has appeared, and it may go on."""
        cdef int32_t fault = self._routes[row - first]
        cdef int64_t number = 0
        cdef int64_t waited_ms = 0
        cdef RecordFields record
        try:
            if fault == PARTITION_UNKNOWN:
                read_number(&self._rows.columns.partition, row, &number)
                if self.head.partition_count <= number < self._missing_from:
                    # It is waited for; what is on its way need not wait, nor keep its memory.
                    self._splice_all()
                number = self._given_index(&record, number, &waited_ms)
                self._grow_slots()
                self._routes[row - first] = <int32_t>number + 1
                return False
            if fault == ROW_TOO_LARGE:
                size = self._rows.size_of(row) + BESIDES_BYTES_MAX
                error = RecordTooLarge(self._path.too_large_text(self.head.name, size))
            else:
                error = self._rows.fault_of(row, fault)
        except Exception as raised:
            if isinstance(raised, UNENDURED):
                raise
            error = raised
        self.tally.refuse(error)
        return True

    cdef int _splice_all(self) except -1:
        """Hand over every batch, even if a signal handler raises at one of them."""
        cdef Py_ssize_t slot
        cdef int _attempt
        error = None
        for slot in range(self._slot_count):
            for _attempt in range(2):
                if self._slots[slot].builder == NULL:
                    break
                try:
                    self._splice(slot)
                except BaseException as raised:
                    error = raised
        if error is not None:
            raise error
        return 0

    cdef int _splice(self, Py_ssize_t slot) except -1:
        """Put a slot's batch behind its queue's others, whole, and tell the sender.

        Memory that goes back may wake an event loop, and choosing a partition is Python, so signal
        handlers may raise here. Before the batch is in its queue it stays in its slot, for another
        attempt; after it has been posted nothing is lost.
        """
        cdef SendPath path = self._path
        cdef object batch = self._batches[slot]
        cdef BatchBuilder builder = batch.builder
        cdef BatchResult result = batch.result
        cdef BatchBuilder previous = None
        cdef PartitionHead queue = <PartitionHead>self.head.queues[result.partition]
        cdef bint is_refused = False
        builder.seal()
        if builder.record_count == 0:
            self._vacate(slot)
            builder.chain.release()
            return 0
        # Not when it was begun: deadlines of a queue's batches pass in the order of the queue.
        result.created_ms = path._clock.now_ms()
        with cython.critical_section(queue):
            previous = queue.builder
            if path.refusal is not None:
                is_refused = True
            elif previous is not None and previous.record_count == 0:
                # Somebody is about to append to it; his record may come after these.
                queue.batches.insert(len(queue.batches) - 1, batch)
                previous = None
            else:
                queue.batches.append(batch)
                queue.builder = None
                queue.result = None
        if is_refused:
            return self._refuse_batch(slot)
        self._vacate(slot)
        path._post(queue)
        if previous is not None:
            previous.seal()
        if self.head.sticky == queue.partition:
            path.roll_sticky(self.head)
            self._follow_topic()
        return 0

    cdef int _refuse_batch(self, Py_ssize_t slot) except -1:
        """Fail a slot's batch, since the producer takes no records any more."""
        cdef object batch = self._batches[slot]
        cdef BatchBuilder builder = batch.builder
        cdef BatchResult result = batch.result
        # Python, so a signal handler may raise: the batch is still in its slot.
        error = self._path.refusal()
        error.persistence = Persistence.NOT_PERSISTED
        self._vacate(slot)
        result.complete(error=error)
        try:
            builder.chain.release()
        finally:
            self._path.note_failed(result.topic, builder.record_count)
        return 0

    cdef int _vacate(self, Py_ssize_t slot) except -1:
        self._slots[slot].builder = self._slots[slot].share = NULL
        self._batches[slot] = self._own_shares[slot] = None
        return 0

    # One by one, for whoever wants to see each record.

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
                self.tally.refuse(error)
            if row % FEW_ROWS == 0:
                self._path.breathe()
