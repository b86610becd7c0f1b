from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t

from kprod._core.record.batch_builder cimport BatchBuilder
from kprod._core.memory.chunk_pool cimport ChunkPool
from kprod._core.clock cimport SystemClock
from kprod._core.outcome.batch_result cimport BatchResult
from kprod._core.prefetch cimport prefetch_line, prefetch_lines
from kprod._core.send.send_hooks cimport SendHooks


cdef enum:
    # Beside the outcomes of an append: why it was not tried.
    NO_BATCH = 100
    CLOSED = 101
    # What fewer partitions have is in a near cache still when their turn comes again.
    LOOKED_AHEAD_MIN = 100
    # Fewer in a row are chance, and what is asked for in vain costs time.
    IN_TURN_MIN = 4
    # Of a builder, what an append looks at.
    BUILDER_BYTES = 128


cdef extern from *:
    """
    /* Where threads run side by side, a batch may be freed while another thread looks at it. */
    #if defined(Py_GIL_DISABLED)
    #define KPROD_LOOKS_AHEAD 0
    #else
    #define KPROD_LOOKS_AHEAD 1
    #endif
    """
    const bint LOOKS_AHEAD "KPROD_LOOKS_AHEAD"


# What a record takes with it alone in a batch, how long it has waited, whether it has a stamp that
# others have too, and the `ReservedChunks` of one that must not wait, borrowed; NULL if it may.
cdef struct AppendRequest:
    Py_ssize_t bound_bytes
    int64_t waited_ms
    bint shares_stamp
    PyObject* reserved


cdef class BatchOpener


cdef class ReservedChunks:
    # Lent by the path's pool; given away all at once.
    cdef public list chunks
    cdef readonly Py_ssize_t missing_count
    cdef readonly bint missing_large
    cdef list fill(self, ChunkPool pool, Py_ssize_t missing_bytes, bint large)


cdef class PartitionAppender:
    # The open batch's builder and result, or None. First, since each send looks at them.
    cdef readonly BatchBuilder builder
    cdef readonly BatchResult result
    # Every batch that is not done, oldest first; the last one may be open.
    cdef readonly object batches
    cdef readonly str topic
    cdef readonly int32_t partition

    cdef bint enter(self, object batch, BatchOpener opener) except -1


cdef class TopicRoutes:
    cdef readonly str name
    # Never shrinks, so that a number once checked against `partition_count` stays a valid index.
    cdef public list queues
    cdef public Py_ssize_t partition_count
    cdef public Py_ssize_t sticky
    # Partitions that take turns, all when empty, and whose turn it is.
    cdef public list turns
    cdef Py_ssize_t _turn
    # Where the latest record went that did not go to the sticky partition, and how many in a row
    # before it went to the partition after the one before.
    cdef Py_ssize_t _latest
    cdef Py_ssize_t _in_turn


cdef class BatchOpener:
    cdef readonly SendHooks hooks
    cdef readonly object inbox
    cdef public object closed_error
    cdef public bint sender_sleeps
    cdef public object wake
    # May send what is posted without the sender, while that sleeps; None where there is none.
    cdef public object direct_path
    cdef ChunkPool _pool
    cdef SystemClock _clock
    cdef int64_t _max_block_ms

    cdef bint _make_room(
        self, TopicRoutes routes, PartitionAppender queue, BatchBuilder builder, int outcome,
        AppendRequest* request
    ) except -1
    cdef int _seal_full(self, PartitionAppender queue, BatchBuilder builder) except -1
    cdef int _extend(self, PartitionAppender queue, list chunks) except -1
    cdef list _take(self, Py_ssize_t missing_bytes, bint large, int64_t* waited_ms)
    cdef list _take_for(self, AppendRequest* request, Py_ssize_t missing_bytes, bint large)
    cdef int _open(self, PartitionAppender queue, list chunks) except -1
    cdef int _post(self, PartitionAppender queue) except -1
    cpdef int wake_sender(self) except -1


cdef list try_take(ChunkPool pool, Py_ssize_t chunk_count, bint large)


# Ask for what the next sends will touch, if records go to one partition after the other. After ten
# thousand others a partition's queue, its open batch and the place to write to are in no near
# cache, and each tells only where the next one is. So each send makes one step of the three, for
# the third, the second and the first partition after its own. It is a hint: no queue or batch is
# held or changed, so none is entered.
cdef inline void look_ahead(TopicRoutes routes, Py_ssize_t index, Py_ssize_t record_bytes) noexcept:
    cdef list queues
    cdef PyObject* queue
    cdef PyObject* builder
    if not LOOKS_AHEAD or routes.partition_count < LOOKED_AHEAD_MIN or index == routes._latest:
        return
    routes._in_turn = routes._in_turn + 1 if index == routes._latest + 1 else 0
    routes._latest = index
    queues = routes.queues
    if routes._in_turn < IN_TURN_MIN or index + 3 >= PyList_GET_SIZE(queues):
        return
    prefetch_line(PyList_GET_ITEM(queues, index + 3))
    queue = PyList_GET_ITEM(queues, index + 2)
    builder = <PyObject*>(<PartitionAppender>queue).builder
    prefetch_lines(builder, BUILDER_BYTES)
    prefetch_line(<PyObject*>(<PartitionAppender>queue).result)
    queue = PyList_GET_ITEM(queues, index + 1)
    builder = <PyObject*>(<PartitionAppender>queue).builder
    if builder != <PyObject*>None:
        (<BatchBuilder>builder).expect(record_bytes)
