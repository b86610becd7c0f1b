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
    # Further outcomes of an append: the reasons why it was not tried.
    NO_BATCH = 100
    CLOSED = 101
    # With fewer partitions, their memory is still in a near cache when they are used again.
    LOOKED_AHEAD_MIN = 100
    # A shorter run is chance, and a useless prefetch costs time.
    IN_TURN_MIN = 4
    # Bytes of a builder that an append uses.
    BUILDER_BYTES = 128


cdef extern from *:
    """
    /* Without the GIL, a batch may be freed while another thread reads it. */
    #if defined(Py_GIL_DISABLED)
    #define KPROD_LOOKS_AHEAD 0
    #else
    #define KPROD_LOOKS_AHEAD 1
    #endif
    """
    const bint LOOKS_AHEAD "KPROD_LOOKS_AHEAD"


# One append besides its record: the most bytes that a batch with the record alone takes, the time
# waited so far, whether other records share its stamp, and a borrowed `ReservedChunks` if it must
# not wait, else NULL.
cdef struct AppendRequest:
    Py_ssize_t bound_bytes
    int64_t waited_ms
    bint shares_stamp
    PyObject* reserved


cdef class BatchOpener


cdef class ReservedChunks:
    # Lent by the path's pool; used all together.
    cdef public list chunks
    cdef readonly Py_ssize_t missing_count
    cdef readonly bint missing_large
    cdef list fill(self, ChunkPool pool, Py_ssize_t missing_bytes, bint large)


cdef class PartitionAppender:
    # The open batch's builder and result, or None. They come first, since each send reads them.
    cdef readonly BatchBuilder builder
    cdef readonly BatchResult result
    # Every batch that is not done, oldest first; the last one may be open.
    cdef readonly object batches
    cdef readonly str topic
    cdef readonly int32_t partition

    cdef bint enter(self, object batch, BatchOpener opener) except -1


cdef class TopicRoutes:
    cdef readonly str name
    # Never shrinks, so an index that was once below `partition_count` stays valid.
    cdef public list queues
    cdef public Py_ssize_t partition_count
    cdef public Py_ssize_t sticky
    # Partitions that take turns (all if empty), and the number of the next turn.
    cdef public list turns
    cdef Py_ssize_t _turn
    # Partition of the latest record that did not go to the sticky one, and the number of
    # consecutive sends that each went to the next partition.
    cdef Py_ssize_t _latest
    cdef Py_ssize_t _in_turn


cdef class BatchOpener:
    cdef readonly SendHooks hooks
    cdef readonly object inbox
    cdef public object closed_error
    cdef public bint sender_sleeps
    cdef public object wake
    # May send a posted queue in place of the sender while that sleeps; None if there is none.
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


# Prefetch the memory of the next sends, if records go to one partition after the other. After ten
# thousand other partitions, a partition's queue, its open batch and the address to write to have
# left the near caches, and each is found only through the one before. So each send takes one of
# these three steps for the third, the second and the first partition after its own. It is only a
# hint: no queue or batch is changed or referenced, so no critical section is entered.
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
