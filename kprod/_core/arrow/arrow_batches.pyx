# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""The batches of one call that sends columns: at most one for each partition.

A batch of the call has no request and no timer, no other thread uses it, and it is not in its
queue. Splicing appends it whole to its queue, inside the queue's critical section. The open batch
of that queue, if any, takes no further records, so that records sent after the columns come after
them.

Thread-safety: batches belong to their call's thread; any number of calls may run concurrently, and
    beside `send`.
Source: Kafka RecordAccumulator.append (clients 4.3.1) for the required order.
"""

cimport cython
from cpython.list cimport PyList_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from libc.string cimport memset

from kprod._core.send.send_path cimport SendPath
from kprod._core.record.batch_builder cimport BatchBuilder
from kprod._core.outcome.batch_result cimport BatchResult
from kprod._core.memory.chunk_pool cimport ChunkChain, ChunkPool
from kprod._core.send.partition_appender cimport PartitionAppender, TopicRoutes
from kprod._core.send.bulk_account cimport BulkAccount
from kprod._core.send.bulk_share cimport BatchShare

from kprod.errors import Persistence


cdef class ArrowBatches:
    """Slots, each for one partition's batch; partition p has slot p + 1.

    Args:
        path: The producer's send path.
        topic_routes: Routes of the topic.
        account: The call's account; each batch has a share of it.
    """

    def __dealloc__(self):
        PyMem_Free(self.slots)

    def __init__(
        self,
        SendPath path not None,
        TopicRoutes topic_routes not None,
        BulkAccount account not None,
    ):
        self._path = path
        self._topic_routes = topic_routes
        self._account = account
        self._batches = []
        self._own_shares = []

    cdef int follow_topic(self) except -1:
        """Use the current sticky partition, which may be newer than the slots."""
        cdef Py_ssize_t sticky = self._topic_routes.sticky
        self.grow()
        if not 0 <= sticky < PyList_GET_SIZE(self._topic_routes.queues):
            raise IndexError(
                f"the sticky partition {sticky} of {self._topic_routes.name!r} has no queue"
            )
        self.sticky_slot = sticky + 1
        return 0

    cdef int grow(self) except -1:
        """Create slots for all partitions, in addition to `STICKY_SLOT`."""
        cdef Py_ssize_t wanted = PyList_GET_SIZE(self._topic_routes.queues) + 1
        cdef Slot* slots
        if wanted <= self.slot_count:
            return 0
        slots = <Slot*>PyMem_Realloc(self.slots, wanted * sizeof(Slot))
        if slots == NULL:
            raise MemoryError("no memory for the slots of partitions")
        self.slots = slots
        self._batches += [None] * (wanted - self.slot_count)
        self._own_shares += [None] * (wanted - self.slot_count)
        memset(&slots[self.slot_count], 0, (wanted - self.slot_count) * sizeof(Slot))
        self.slot_count = wanted
        return 0

    cdef int open_slot(self, Py_ssize_t slot, list chunks) except -1:
        """Open a batch for a slot on these chunks; if that fails, they return to the pool."""
        cdef SendPath path = self._path
        cdef ChunkChain chain
        cdef BatchShare share
        try:
            chain = ChunkChain(path._pool, chunks)
        except MemoryError:
            path._pool.give_back_chunks(chunks)
            raise
        try:
            batch = path.hooks.make_batch(self._topic_routes.queues[slot - 1], chain)
            share = BatchShare(self._account, batch.result)
            share.watch()
        except BaseException:
            chain.release()
            raise
        self._batches[slot] = batch
        self._own_shares[slot] = share
        self.slots[slot].builder = <PyObject*>batch.builder
        self.slots[slot].share = <PyObject*>share
        return 0

    cdef bint lengthen(
        self, Py_ssize_t slot, int64_t wanted_bytes, int64_t need_bytes
    ) except -1:
        """Extend a slot's batch as far as memory is free; return whether `need_bytes` fit."""
        cdef BatchBuilder builder = <BatchBuilder>self.slots[slot].builder
        cdef ChunkPool pool = self._path._pool
        wanted_bytes = min(
            max(wanted_bytes, need_bytes), <int64_t>(builder.limit_bytes - builder.size_bytes)
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

    cdef int splice_all(self) except -1:
        """Splice every batch, even if a signal handler raises at one of them."""
        cdef Py_ssize_t slot
        cdef int _attempt
        error = None
        for slot in range(self.slot_count):
            for _attempt in range(2):
                if self.slots[slot].builder == NULL:
                    break
                try:
                    self.splice(slot)
                except BaseException as raised:
                    error = raised
        if error is not None:
            raise error
        return 0

    cdef int splice(self, Py_ssize_t slot) except -1:
        """Append a slot's whole batch to its queue, and notify the sender.

        Returning memory may wake an event loop, and choosing a partition runs Python code, so a
        signal handler may raise here. Until the batch is in its queue it stays in its slot, for
        another attempt; once it has been posted, nothing is lost.
        """
        cdef SendPath path = self._path
        cdef object batch = self._batches[slot]
        cdef BatchBuilder builder = batch.builder
        cdef BatchResult result = batch.result
        cdef BatchBuilder previous = None
        cdef list queues = self._topic_routes.queues
        cdef PartitionAppender queue = <PartitionAppender>queues[result.partition]
        cdef bint is_rejected = False
        builder.seal()
        if builder.record_count == 0:
            self._vacate(slot)
            builder.chain.release()
            return 0
        # Set now, not when the batch was opened: a queue's deadlines must pass in queue order.
        result.created_ms = path._clock.now_ms()
        with cython.critical_section(queue):
            previous = queue.builder
            if path.closed_error is not None:
                is_rejected = True
            elif previous is not None and previous.record_count == 0:
                # Another thread is about to append to it; that record may come after these.
                queue.batches.insert(len(queue.batches) - 1, batch)
                previous = None
            else:
                queue.batches.append(batch)
                queue.builder = None
                queue.result = None
        if is_rejected:
            return self._reject_batch(slot)
        self._vacate(slot)
        path._post(queue)
        if previous is not None:
            previous.seal()
        if self._topic_routes.sticky == queue.partition:
            path.hooks.roll_sticky(self._topic_routes)
            self.follow_topic()
        return 0

    cdef int _reject_batch(self, Py_ssize_t slot) except -1:
        """Fail a slot's batch, since the producer takes no more records."""
        cdef object batch = self._batches[slot]
        cdef BatchBuilder builder = batch.builder
        cdef BatchResult result = batch.result
        # This runs Python code, so a signal handler may raise; the batch is still in its slot.
        error = self._path.closed_error()
        error.persistence = Persistence.NOT_PERSISTED
        self._vacate(slot)
        result.complete(error=error)
        try:
            builder.chain.release()
        finally:
            self._path.hooks.note_failed(result.topic, builder.record_count)
        return 0

    cdef int _vacate(self, Py_ssize_t slot) except -1:
        self.slots[slot].builder = self.slots[slot].share = NULL
        self._batches[slot] = self._own_shares[slot] = None
        return 0
