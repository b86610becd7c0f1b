# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
# distutils: extra_compile_args = -fno-tree-slp-vectorize
# Why: store forwarding, see "What decides it" in docs/performance.md.
"""`send` for an event loop; a send that need not wait does the same as the synchronous one.

A `Sending` is a coroutine. Its first step appends the record, and most sends end there, with the
record's future. If a send must wait for a topic, a partition or memory, a Python coroutine
continues it and tries again whenever something has changed, in a step of the caller's own task. So
a caller that is cancelled while waiting knows that the record was not accepted, and an accepted
record's future is always returned.

A task that only sends would never yield to its loop, since appending does not suspend the task. So
one send in every `RESTLESS_SENDS_MAX` is continued in the loop's next iteration.

Thread-safety: a `Sending` one loop's thread; an `AsyncSendPath` any number of loops and threads.
"""

cimport cython
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyCallable_Check, PyObject
from cpython.ref cimport Py_DECREF
from cpython.unicode cimport PyUnicode_CheckExact

from kprod._core.send.send_path cimport SendArguments, SendPath, borrow
from kprod._core.arguments cimport plain_text, whole

from kprod._core.aio.loop_mailbox cimport LoopSignal
from kprod._core.memory.memory_waiter cimport MemoryWaiter
from kprod._core.send.partition_appender cimport ReservedChunks, TopicRoutes
from kprod._core.outcome.record_future cimport RecordFuture
from kprod._core.aio.compiled_coroutine cimport CompiledCoroutine, as_error

from warnings import warn

from kprod.errors import ClosedError

cdef extern from "Python.h":
    ctypedef enum PySendResult:
        PYGEN_RETURN
        PYGEN_ERROR
        PYGEN_NEXT
    PySendResult PyIter_Send(object steps, object sent, PyObject** result) except PYGEN_ERROR

cdef enum:
    # Sends per iteration of the loop: some tenths of a millisecond.
    RESTLESS_SENDS_MAX = 500

# Reserves nothing. Many sends note their missing chunks in it, and no code reads these.
cdef ReservedChunks _nothing_reserved = ReservedChunks()


def not_open():
    """Create the error raised before the start, and after the end."""
    return ClosedError(
        "the producer is not open: await start() or use 'async with' before, and make another if it"
        " was closed"
    )


cdef class AsyncSendPath:
    """State shared by the sends of an asynchronous producer; a subclass implements their waits.

    Attributes:
        send_path: Appends the records; None before the start, and after the end if it is shared.
    """

    def wait_and_send(self, sending):
        """Return a coroutine that waits as needed, and returns the record's future."""
        raise NotImplementedError


# The path of a producer whose `__init__` has not run: it is not open.
cdef AsyncSendPath _path_of_none = AsyncSendPath()


cdef class AsyncSendMethod:
    """The compiled base class of `AsyncProducer`: `send`, and a reference to the engine.

    Args:
        path: Kept as `_kprod`.
    """

    def __init__(self, AsyncSendPath path not None):
        self._kprod = path

    def send(
        self, topic, value=None, key=None, headers=None, partition=None, timestamp_ms=None,
        on_delivery=None,
    ):
        """Send one record, waiting in turn for its topic and for memory if necessary.

        A coroutine: nothing happens before it is awaited, or made a task. The record was accepted
        if and only if a future is returned: an error, or a cancellation, means that it was not.

        Args:
            topic: Name of the topic.
            value: Bytes-like, or None for a tombstone; any object with a `value_serializer`.
            key: Bytes-like or None; decides the partition if none is given.
            headers: Pairs of a str and bytes-like or None, or a mapping of them.
            partition: 0-based; None lets the key or the partitioner decide.
            timestamp_ms: Milliseconds since 1970; None for the time of the call, as in
                `Producer.send`.
            on_delivery: Called as `on_delivery(metadata, error)` on the sender's thread when the
                record is settled; exactly one of them is None.

        Returns:
            A `RecordFuture`: await it, in any loop, for the record's metadata.

        Raises:
            TypeError: An argument of a wrong type, such as a value that is not bytes-like.
            ValueError: A negative partition or timestamp, or an illegal topic name.
            SerializationError: A serializer raised.
            RecordTooLarge: The record exceeds `max_request_size` or `buffer_memory`.
            UnknownTopic: The cluster does not know the topic, and does not create it.
            UnknownPartition: The topic has no such partition.
            MetadataTimeout: The topic's partitions could not be fetched within `max_block_ms`.
            BufferTimeout: No memory was freed within `max_block_ms`.
            ClosedError: The producer is not open.

        Thread-safety: any thread with a running event loop.
        """
        cdef Sending sending = Sending.__new__(Sending)
        sending._path = _path_of_none if self._kprod is None else self._kprod
        sending.topic = topic
        sending._value = value
        sending._key = key
        sending._headers = headers
        sending.partition = partition
        sending._timestamp_ms = timestamp_ms
        sending._on_delivery = on_delivery
        return sending


@cython.final
cdef class Sending(CompiledCoroutine):
    """One call of `send` in progress.

    Attributes:
        topic: As passed to `send`, then as interceptors leave it.
        partition: The partition, as passed or as interceptors leave it.
    """

    def __dealloc__(self):
        if self._path is not None and not self._has_begun and not self.is_over:
            try:
                warn(f"send to {self.topic!r} was never awaited: nothing is sent", RuntimeWarning)
            except BaseException:
                # A filter made the warning an error, and a finalizer has no caller to raise it to.
                pass

    def attempt(self, ReservedChunks reserved not None):
        """Append the record without waiting.

        Args:
            reserved: Chunks to use; missing chunks are noted in it.

        Returns:
            The record's future; None while its topic or partition is not known, or if neither
            `reserved` nor the pool has the memory.
        """
        return self._attempt(reserved)

    @property
    def knows_topic(self):
        """Whether the topic's partitions are known."""
        return self._needed().topics.get(self.topic) is not None

    @property
    def knows_partition(self):
        """Whether the topic, which is known, has the requested partition."""
        cdef TopicRoutes routes = self._needed().topics[self.topic]
        return self.partition is None or whole(self.partition, "partition") < routes.partition_count

    cdef object advance(self):
        if self._rest is not None:
            return self._go_on()
        if not self._has_begun:
            self._has_begun = True
            self._path._since_rest += 1
            if self._path._since_rest >= RESTLESS_SENDS_MAX:
                self._path._since_rest = 0
                return None
        future = self._attempt(_nothing_reserved)
        if future is not None:
            self.is_over = True
            return future
        self._rest = self._path.wait_and_send(self)
        return self._go_on()

    cdef object _go_on(self):
        cdef PyObject* owned = NULL
        self.is_over = PyIter_Send(self._rest, None, &owned) == PYGEN_RETURN
        step = <object>owned
        Py_DECREF(step)
        return step

    def throw(self, kind, error=None, trace=None):
        """End the wait by an exception, usually a cancellation; the send leaves every queue."""
        if self._rest is None:
            return CompiledCoroutine.throw(self, kind, error, trace)
        try:
            return self._rest.throw(as_error(kind, error, trace))
        except BaseException:
            self.is_over = True
            raise

    cdef int cancel(self) except -1:
        if self._rest is not None:
            self._rest.close()
        return 0

    cdef RecordFuture _attempt(self, ReservedChunks reserved):
        cdef SendPath path = self._needed()
        cdef SendArguments given
        cdef PyObject* found
        if path.closed_error is not None:
            raise path.closed_error()
        if not self._is_intercepted:
            self._is_intercepted = True
            self._intercept(path)
        if self._head is None:
            found = PyDict_GetItem(path.topics, self.topic)
            if found == NULL:
                return None
            if path._has_serializers:
                self._key, self._value, self._headers = path.hooks.serialize(
                    self.topic, self._key, self._value, self._headers
                )
            self._head = <TopicRoutes>found
        if self.partition is not None:
            if whole(self.partition, "partition") >= self._head.partition_count:
                return None
        borrow(
            &given,
            self._value, self._key, self._headers, self.partition, self._timestamp_ms,
            self._on_delivery,
        )
        return path.hand_over(self._head, &given, 0, reserved)

    cdef SendPath _needed(self):
        if self._send_path is None:
            self._send_path = self._path.send_path
            if self._send_path is None:
                raise not_open()
        return self._send_path

    cdef int _intercept(self, SendPath path) except -1:
        if path._has_interceptors:
            (
                self.topic, self._value, self._key, self._headers, self.partition,
                self._timestamp_ms, self._on_delivery,
            ) = path.hooks.intercept(
                (
                    self.topic, self._value, self._key, self._headers, self.partition,
                    self._timestamp_ms,
                ),
                self._on_delivery,
            )
        if not PyUnicode_CheckExact(self.topic):
            self.topic = plain_text(self.topic)
        if self._on_delivery is not None and not PyCallable_Check(self._on_delivery):
            raise TypeError(
                f"on_delivery must be callable or None, got {type(self._on_delivery).__name__}"
            )
        return 0


cdef class LoopMemoryWaiter(MemoryWaiter):
    """A waiter in the pool's queue for memory whose owner waits in an event loop.

    Args:
        chunk_count: At least 1.
        large: Whether the chunks are large ones.
        chunk_bytes: Size of one chunk.

    Attributes:
        pool: Pool whose queue it joins; its owner sets this first.
        signal: Woken when the waiter is satisfied or the pool closes.
    """

    def __cinit__(self):
        self.signal = LoopSignal()

    cdef int wake(self) except -1:
        if not self.signal.notify() or self.is_away():
            # The loop is closed or not running, so the grant would be unused. If the loop runs
            # again, it finds no grant and queues again.
            self.pool.remove_waiter(self)
        return 0

    cdef bint is_away(self) except -1:
        return not self.signal.is_heard
