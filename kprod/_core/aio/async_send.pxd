from kprod._core.send.send_path cimport SendPath
from kprod._core.memory.chunk_pool cimport ChunkPool
from kprod._core.aio.loop_mailbox cimport LoopSignal
from kprod._core.memory.memory_waiter cimport MemoryWaiter
from kprod._core.send.partition_appender cimport ReservedChunks, TopicRoutes
from kprod._core.outcome.record_future cimport RecordFuture
from kprod._core.aio.compiled_coroutine cimport CompiledCoroutine


cdef class AsyncSendPath:
    # None unless it is open.
    cdef public SendPath send_path
    cdef int _since_rest


cdef class AsyncSendMethod:
    # None until `__init__` has run.
    cdef readonly AsyncSendPath _kprod


cdef class Sending(CompiledCoroutine):
    cdef AsyncSendPath _path
    # The path's own, kept from the first attempt on.
    cdef SendPath _send_path
    cdef readonly object topic
    cdef object _value
    cdef object _key
    cdef object _headers
    cdef readonly object partition
    cdef object _timestamp_ms
    cdef object _on_delivery
    # Set once the topic is known, and interceptors and serializers have seen the record.
    cdef TopicRoutes _head
    cdef bint _is_intercepted
    cdef bint _has_begun
    # The Python coroutine that continues a send which must wait.
    cdef object _rest
    cdef RecordFuture _attempt(self, ReservedChunks reserved)
    cdef object _go_on(self)
    cdef SendPath _needed(self)
    cdef int _intercept(self, SendPath path) except -1


cdef class LoopMemoryWaiter(MemoryWaiter):
    cdef public ChunkPool pool
    cdef readonly LoopSignal signal
