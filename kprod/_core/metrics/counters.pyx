# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: nonecheck=True, auto_pickle=False
"""A producer's sums and peaks, updated per batch, request and turn by compiled code alone.

`kprod.metrics` defines their meaning, and the metrics made of them. This module has only the code
on the sender's path: a few additions, and two readings of the clock around its sleep.

Invariant: sums never fall; a peak is at least every value since it was last set to 0.

There is no lock: application threads update a counter in one step of compiled code, in which
neither a signal handler nor the garbage collector can run.

Thread-safety: `failed`, `waited_for_memory`, `waited_for_metadata` and `flushed` any thread, as
well as reading single counters; all else only the sender's thread.
Source: Kafka SenderMetricsRegistry, Selector (clients 4.3.1) for the counted events.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t

from kprod._core.record.batch_builder cimport BatchBuilder
from kprod._core.outcome.batch_result cimport BatchResult
from kprod._core.clock cimport SystemClock


cdef inline int _latency_bucket(int64_t latency_ms) noexcept:
    """Return the bucket of a latency: exact below 16 ms, then eight for each doubling."""
    cdef int shift = 0
    if latency_ms < 16:
        return <int>max(latency_ms, 0)
    while (latency_ms >> shift) >= 16:
        shift += 1
    return <int>min(8 * shift + (latency_ms >> shift), LATENCY_BUCKETS - 1)


def latency_bound_ms(int bucket) -> int:
    """Return the largest latency in milliseconds that a bucket of latencies counts."""
    if bucket < 16:
        return bucket
    return ((bucket % 8 + 9) << (bucket // 8 - 1)) - 1


cdef class ProducerCounters:
    """Counters of the whole producer; times are in the units of the field names."""

    def latency_counts(self) -> tuple:
        """Return the Produce responses by the bucket of their latency."""
        cdef int bucket
        return tuple([self._latencies[bucket] for bucket in range(LATENCY_BUCKETS)])


cdef class TopicCounters:
    """Counters of one topic."""


cdef class NodeCounters:
    """Counters of one node."""


cdef class CallerCounters:
    """Counters of the application's threads."""


cdef class Counting:
    """Counts the events of a producer.

    Args:
        clock: Read around the sender's sleep.
        turns_at_ms: Monotonic time of the first call of `turn`.
    """

    def __init__(self, SystemClock clock not None, int64_t turns_at_ms):
        self.producer = ProducerCounters()
        self.callers = CallerCounters()
        self.topics = {}
        self.nodes = {}
        self._clock = clock
        self._turns_at_ms = turns_at_ms
        self._asleep_ns = self._awake_ns = clock.now_ns()

    def make_topic(self, name):
        """Create a topic's counters, unless another thread has; return its `TopicCounters`."""
        return self.topics.setdefault(name, TopicCounters())

    def make_node(self, node_id):
        """Create a node's counters; return its `NodeCounters`."""
        counters = self.nodes[node_id] = NodeCounters()
        return counters

    def next_window(self, now_ms):
        """Start another time window; return the time of the next call."""
        return now_ms + (1 << 40)

    def has_counters(self, str topic) -> bool:
        """Return whether a topic has its counters, which Python code creates."""
        return topic in self.topics

    def produced(self, batches, int64_t now_ms) -> None:
        """Count a Produce request made of these batches."""
        cdef ProducerCounters whole = self.producer
        cdef TopicCounters topic
        cdef BatchBuilder builder
        cdef BatchResult result
        cdef int64_t queued_ms
        for batch in batches:
            builder = batch.builder
            result = batch.result
            # A batch may have been opened after the sender's turn began.
            queued_ms = max(now_ms - result.created_ms, 0)
            whole.batches += 1
            whole.records += builder.record_count
            whole.plain_bytes += builder.size_bytes
            whole.encoded_bytes += builder.encoded_bytes
            whole.queued_ms += queued_ms
            whole.queued_ms_max = max(whole.queued_ms_max, queued_ms)
            whole.encoded_bytes_max = max(whole.encoded_bytes_max, <int64_t>builder.encoded_bytes)
            topic = self._topic(result.topic)
            topic.records += builder.record_count
            topic.plain_bytes += builder.size_bytes
            topic.encoded_bytes += builder.encoded_bytes
        whole.produce_requests += 1

    def answered(self, node_id, int64_t latency_ms, int64_t throttle_ms) -> None:
        """Count a response to a Produce request."""
        cdef ProducerCounters whole = self.producer
        cdef NodeCounters node = self._node(node_id)
        whole.answers += 1
        whole.latency_ms += latency_ms
        whole._latencies[_latency_bucket(latency_ms)] += 1
        whole.throttled_ms += throttle_ms
        whole.latency_ms_max = max(whole.latency_ms_max, latency_ms)
        whole.throttled_ms_max = max(whole.throttled_ms_max, throttle_ms)
        node.answers += 1
        node.latency_ms += latency_ms
        node.latency_ms_max = max(node.latency_ms_max, latency_ms)

    def retried(self, str topic, int32_t record_count) -> None:
        """Count the records of a batch that is sent again."""
        cdef TopicCounters counters = self._topic(topic)
        self.producer.retried_records += record_count
        counters.retried_records += record_count

    def failed(self, str topic, int32_t record_count) -> None:
        """Count permanently failed records; any thread, as a send may find the producer closed."""
        cdef TopicCounters counters = self._topic(topic)
        with cython.critical_section(self):
            self.producer.failed_records += record_count
            counters.failed_records += record_count

    def waited_for_memory(self, int64_t waited_ns, *, bint in_vain) -> None:
        """Count a send's wait for buffer memory, and whether it got none; any thread."""
        with cython.critical_section(self):
            self.callers.memory_waits_ns += waited_ns
            self.callers.rejected_for_memory += in_vain

    def waited_for_metadata(self, int64_t waited_ns) -> None:
        """Count a send's wait for a topic; any thread."""
        with cython.critical_section(self):
            self.callers.metadata_waits_ns += waited_ns

    def flushed(self, int64_t waited_ns) -> None:
        """Count a finished flush; any thread."""
        with cython.critical_section(self):
            self.callers.flushes_ns += waited_ns

    def split(self) -> None:
        """Count a batch that was split."""
        self.producer.splits += 1

    def requested(self, node_id, int64_t size_bytes) -> None:
        """Count a sent request of any kind."""
        cdef ProducerCounters whole = self.producer
        cdef NodeCounters node = self._node(node_id)
        whole.requests += 1
        whole.request_bytes += size_bytes
        whole.request_bytes_max = max(whole.request_bytes_max, size_bytes)
        node.requests += 1
        node.request_bytes += size_bytes
        node.request_bytes_max = max(node.request_bytes_max, size_bytes)

    def responded(self, node_id, int64_t size_bytes) -> None:
        """Count a received response of any kind."""
        cdef NodeCounters node = self._node(node_id)
        self.producer.responses += 1
        self.producer.response_bytes += size_bytes
        node.responses += 1
        node.response_bytes += size_bytes

    def connected(self) -> None:
        """Count a connection that has become usable."""
        self.producer.connections_made += 1

    def disconnected(self) -> None:
        """Count a usable connection that was lost."""
        self.producer.connections_closed += 1

    def logged_in(self, int64_t latency_ms, *, bint is_again) -> None:
        """Count a login that succeeded, on a new connection or again on one."""
        cdef ProducerCounters whole = self.producer
        if is_again:
            whole.logins_again += 1
            whole.login_again_ms += latency_ms
            whole.login_again_ms_max = max(whole.login_again_ms_max, latency_ms)
        else:
            whole.logins += 1

    def login_failed(self, *, bint is_again) -> None:
        """Count a login that failed."""
        if is_again:
            self.producer.failed_logins_again += 1
        else:
            self.producer.failed_logins += 1

    def falls_asleep(self) -> None:
        """Record that the sender may sleep now."""
        self._asleep_ns = self._clock.now_ns()

    def wakes_up(self) -> None:
        """Record that the sender is awake, and handles the events that are ready."""
        self._awake_ns = self._clock.now_ns()

    def has_served(self, int64_t now_ms) -> None:
        """Count a finished turn of the sender."""
        cdef ProducerCounters whole = self.producer
        whole.selects += 1
        whole.waited_ns += self._awake_ns - self._asleep_ns
        whole.served_ns += self._clock.now_ns() - self._awake_ns
        if now_ms >= self._turns_at_ms:
            self._turns_at_ms = self.next_window(now_ms)

    cdef TopicCounters _topic(self, str name):
        found = self.topics.get(name)
        return <TopicCounters?>(self.make_topic(name) if found is None else found)

    cdef NodeCounters _node(self, object node_id):
        found = self.nodes.get(node_id)
        return <NodeCounters?>(self.make_node(node_id) if found is None else found)


cdef class NotCounting:
    """Accepts the calls of `Counting` and counts nothing."""

    def has_counters(self, str topic) -> bool:
        """See `Counting.has_counters`."""
        return True

    def produced(self, batches, int64_t now_ms) -> None:
        """See `Counting.produced`."""

    def answered(self, node_id, int64_t latency_ms, int64_t throttle_ms) -> None:
        """See `Counting.answered`."""

    def retried(self, str topic, int32_t record_count) -> None:
        """See `Counting.retried`."""

    def failed(self, str topic, int32_t record_count) -> None:
        """See `Counting.failed`."""

    def waited_for_memory(self, int64_t waited_ns, *, bint in_vain) -> None:
        """See `Counting.waited_for_memory`."""

    def waited_for_metadata(self, int64_t waited_ns) -> None:
        """See `Counting.waited_for_metadata`."""

    def flushed(self, int64_t waited_ns) -> None:
        """See `Counting.flushed`."""

    def split(self) -> None:
        """See `Counting.split`."""

    def requested(self, node_id, int64_t size_bytes) -> None:
        """See `Counting.requested`."""

    def responded(self, node_id, int64_t size_bytes) -> None:
        """See `Counting.responded`."""

    def connected(self) -> None:
        """See `Counting.connected`."""

    def disconnected(self) -> None:
        """See `Counting.disconnected`."""

    def logged_in(self, int64_t latency_ms, *, bint is_again) -> None:
        """See `Counting.logged_in`."""

    def login_failed(self, *, bint is_again) -> None:
        """See `Counting.login_failed`."""

    def falls_asleep(self) -> None:
        """See `Counting.falls_asleep`."""

    def wakes_up(self) -> None:
        """See `Counting.wakes_up`."""

    def has_served(self, int64_t now_ms) -> None:
        """See `Counting.has_served`."""
