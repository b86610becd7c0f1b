# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The routes of one block's rows, and roughly how many bytes each partition needs for them.

A block is planned with the GIL released, before any of its rows is encoded. A slot is a partition's
index in the call: partition p has slot p + 1, and `STICKY_SLOT` means the partition of rows without
one, which may change while a block is being sent.

Thread-safety: a plan belongs to its call's thread.
Source: Kafka KafkaProducer.partition and BuiltInPartitioner (clients 4.3.1) for the choice.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from kprod._core.send.send_path cimport SendPath
from kprod._core.send.partition_appender cimport TopicRoutes
from kprod._core.arrow.arrow_columns cimport OFFSETS_32, OFFSETS_64, bytes_between
from kprod._core.arrow.arrow_rows cimport PARTITION_UNKNOWN, ArrowRows, Columns, RowLook
from kprod._core.send.key_hash cimport hash_key

cdef enum:
    # Roughly the most bytes that the rows of a block may need.
    BLOCK_BYTES = 1048576
    # Lengths, attributes and deltas of most records; encoding notices if a record needs more.
    RECORD_BESIDES_BYTES = 14
    NULL_KEY_BYTES = -1


cdef class BlockPlan:
    """Routes of one block's rows, and the bytes planned for each slot.

    Args:
        path: The producer's send path.
        topic_routes: Routes of the topic.
        rows: Rows of the table.
    """

    def __cinit__(self, *args):
        self.routes = <int32_t*>PyMem_Malloc(BLOCK_ROWS * sizeof(int32_t))
        if self.routes == NULL:
            raise MemoryError("no memory for the routes of a block of rows")

    def __dealloc__(self):
        PyMem_Free(self.routes)
        PyMem_Free(self._planned)
        PyMem_Free(self.touched)
        PyMem_Free(self._turns)

    def __init__(
        self, SendPath path not None, TopicRoutes topic_routes not None, ArrowRows rows not None
    ):
        self._path = path
        self._topic_routes = topic_routes
        self._rows = rows

    cdef int begin(self, Py_ssize_t slot_count, Py_ssize_t partition_count) except -1:
        """Reset the plan for a block, and take over turns and partitions that have changed.

        Args:
            slot_count: Number of slots of the call.
            partition_count: Number of partitions that a row may name; each has a slot.
        """
        cdef SendPath path = self._path
        cdef Columns* columns = &self._rows.columns
        cdef Py_ssize_t index
        for index in range(self.touched_count):
            self._planned[self.touched[index]] = 0
        self.touched_count = 0
        self._partition_count = partition_count
        self._grow(slot_count)
        # No row needs a look-up, since all go to the sticky partition.
        self._is_plain_array = (
            columns.validity == NULL and not columns.value.is_encoded
            and (columns.value.layout == OFFSETS_32 or columns.value.layout == OFFSETS_64)
            and not (columns.has_key or columns.has_headers or columns.has_partition)
            and not path._takes_turns and path._hashed_key_bytes_min > NULL_KEY_BYTES
        )
        if path._takes_turns:
            self._take_turns()
        return 0

    cdef int _grow(self, Py_ssize_t wanted) except -1:
        cdef int64_t* planned
        cdef Py_ssize_t* touched
        if wanted <= self._slot_count:
            return 0
        planned = <int64_t*>PyMem_Realloc(self._planned, wanted * sizeof(int64_t))
        if planned == NULL:
            raise MemoryError("no memory for the slots of partitions")
        self._planned = planned
        touched = <Py_ssize_t*>PyMem_Realloc(self.touched, wanted * sizeof(Py_ssize_t))
        if touched == NULL:
            raise MemoryError("no memory for the slots of partitions")
        self.touched = touched
        memset(&planned[self._slot_count], 0, (wanted - self._slot_count) * sizeof(int64_t))
        self._slot_count = wanted
        return 0

    cdef int _take_turns(self) except -1:
        cdef Py_ssize_t index
        queue_turns = self._topic_routes.turns or list(range(self._partition_count))
        cdef Py_ssize_t wanted = len(queue_turns)
        cdef int32_t* turns = <int32_t*>PyMem_Realloc(self._turns, wanted * sizeof(int32_t))
        if turns == NULL:
            raise MemoryError("no memory for the turns of partitions")
        self._turns = turns
        self._turn_count = wanted
        for index in range(wanted):
            # The topic may have grown since the slots were created.
            turns[index] = min(<int64_t>queue_turns[index], <int64_t>self._slot_count - 2)
        self._turn = self._topic_routes._turn
        return 0

    cdef int keep_turn(self) except -1:
        """Let the next send start at the partition whose turn follows the planned rows."""
        if self._turn_count:
            self._topic_routes._turn = <Py_ssize_t>self._turn
        return 0

    cdef int64_t planned_bytes(self, Py_ssize_t slot) noexcept:
        """Return the bytes that the block's rows need of a slot; 0 if it is newer than the plan."""
        return self._planned[slot] if slot < self._slot_count else 0

    @cython.nonecheck(False)
    cdef int64_t route(self, int64_t first, int64_t end) noexcept nogil:
        """Find each row's slot, up to a block's worth of bytes; return the next row."""
        cdef int64_t row
        cdef int64_t size
        cdef int64_t total_bytes = 0
        cdef int32_t slot
        if self._is_plain_array:
            return self._route_plain(first, end)
        for row in range(first, end):
            size = RECORD_BESIDES_BYTES
            slot = self._slot_of(row, &size)
            self.routes[row - first] = slot
            if slot < 0:
                continue
            self._plan(slot, size)
            total_bytes += size
            if total_bytes >= BLOCK_BYTES:
                return row + 1
        return end

    @cython.nonecheck(False)
    cdef int64_t _route_plain(self, int64_t first, int64_t end) noexcept nogil:
        """Route rows that all go to the sticky partition, and whose sizes the offsets give."""
        cdef int64_t size = bytes_between(&self._rows.columns.value, first, end)
        while size > BLOCK_BYTES and end - first > 1:
            end = first + (end - first) // 2
            size = bytes_between(&self._rows.columns.value, first, end)
        memset(self.routes, 0, (end - first) * sizeof(int32_t))
        self._plan(STICKY_SLOT, size + RECORD_BESIDES_BYTES * (end - first))
        return end

    @cython.nonecheck(False)
    cdef void _plan(self, int32_t slot, int64_t size) noexcept nogil:
        """Add to the bytes that a slot needs."""
        if self._planned[slot] == 0:
            self.touched[self.touched_count] = slot
            self.touched_count += 1
        self._planned[slot] += size

    @cython.nonecheck(False)
    cdef int32_t _slot_of(self, int64_t row, int64_t* size) noexcept nogil:
        """Return a row's slot, or why it has none; add its key's, value's and headers' bytes."""
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
