# cython: annotation_typing=False, nonecheck=True
# distutils: extra_compile_args = -Os
"""Sends a lone fetch once more with the next offset, without the objects of a new request.

No Python bytecode may run here on the direct path: see `COMPILED_MODULES`.

A consumer that waits for each record repeats one request, and only numbers in it change. `Fetcher`
and `NetworkClient` need more than half of the time that a record takes to process its response and
to make the next request, since they handle every case. This module handles the usual one: it
changes the same fields in place, and the request stays in flight. `accepts` says whether it is the
usual case; in every other one it changes nothing, and the caller uses `Fetcher`.

Invariant: `run` leaves the same state as `Fetcher`, except for the objects of the request, and for
the order of the session's partitions, which only a full request sends to the broker.

Thread-safety: the thread that owns the I/O thread's state (`DirectRead`).
"""

from kprod._core.record.batch_ends import last_batch
from kprod._core.wire.fetch_frames import LoneFetch
from kprod.cluster.metadata import Metadata
from kprod.consumer.fetch_buffer import FetchBuffer, lone_block
from kprod.consumer.fetch_plan import FetchPlan
from kprod.consumer.fetch_request import FetchRequest
from kprod.consumer.fetch_session import Wanted
from kprod.consumer.fetcher import SMALL_BYTES, Fetcher
from kprod.consumer.topic_watch import TopicWatch
from kprod.network.connection import NodeConnection
from kprod.network.in_flight import InFlightRequest

_SMALL_BYTES = SMALL_BYTES  # a C integer: see the `.pxd`


class FetchRepeat:
    """Repeats the fetches of one consumer."""

    def __init__(
        self,
        fetcher: Fetcher,
        metadata: Metadata,
        *,
        plan: FetchPlan,
        buffer: FetchBuffer,
        topics: TopicWatch,
    ) -> None:
        """Connect the parts.

        Args:
            fetcher: Has sent the fetch.
            metadata: The metadata of its client.
            plan: The partitions to fetch.
            buffer: Gets the records.
            topics: Told that a partition was fetched.
        """
        self._fetcher = fetcher
        self._metadata = metadata
        self._plan = plan
        self._buffer = buffer
        self._topics = topics

    def accepts(  # noqa: PLR0917 - keywords cost time
        self,
        connection: NodeConnection,
        in_flight: InFlightRequest,
        request: FetchRequest,
        answer: LoneFetch,
        now_ms: int,
    ) -> bool:
        """Whether a response and the next request are the usual ones.

        Args:
            connection: The request's connection.
            in_flight: The request in flight, the only one there.
            request: The same request.
            answer: The response.
            now_ms: Monotonic time.

        Returns:
            True if `run` must process the response, immediately.
        """
        wanted, session, records = request.repeated, request.session, answer.records
        if wanted is None or records is None:
            return False
        return (
            session.is_unchanged(answer.session_id)
            and answer.topic == request.topic
            and answer.partition == request.partition
            and self._is_fetched_next(wanted, records, now_ms)
            and self._has_nothing_else(request.node_id)
            and self._asks_for_as_much(request, len(records))
            and self._may_send(connection, in_flight, now_ms)
        )

    def run(  # noqa: PLR0917 - keywords cost time
        self,
        connection: NodeConnection,
        in_flight: InFlightRequest,
        request: FetchRequest,
        answer: LoneFetch,
        now_ms: int,
    ) -> None:
        """Process the response, and send the request with the next offset.

        Args:
            connection: The request's connection; its response is read from the socket.
            in_flight: The request in flight.
            request: The same request, which `accepts` has accepted.
            answer: Its response.
            now_ms: Monotonic time.

        Raises:
            MemoryError: The connection must be dropped. The block is in the buffer and the
                partition behind it, or neither.
        """
        wanted, session, fetcher = request.repeated, request.session, self._fetcher
        records = answer.records
        assert wanted is not None and records is not None  # noqa: S101, PT018 - it was accepted
        partition, end = wanted.partition, last_batch(records)
        assert end is not None  # noqa: S101 - as above
        next_epoch = max(end.leader_epoch, -1)
        next_offset = end.next_offset
        block = lone_block(
            partition, wanted.number, wanted.offset, records, next_offset, next_epoch
        )
        number = connection.next_correlation_id()
        frame = request.repeated_frame(number, session.epoch + 1, next_offset, next_epoch)
        self._buffer.add_own(block)
        fetcher.has_left = False
        fetcher.counts.note(now_ms - in_flight.sent_at_ms)
        fetcher.counts.bytes_total += block.memory.size_bytes
        self._topics.works(partition)
        partition.note_fetched(
            answer.high_watermark, answer.last_stable_offset, answer.log_start_offset
        )
        partition.cut_off_count = 0
        wanted.move(next_offset, next_epoch)
        session.note_response(answer.session_id)
        connection.send_again(in_flight, frame, number, now_ms)

    def _is_fetched_next(self, wanted: Wanted, records: memoryview, now_ms: int) -> bool:
        """Whether the response is awaited, brings records, and the partition is fetched on."""
        partition = wanted.partition
        if not wanted.is_awaited() or len(records) > _SMALL_BYTES:
            return False
        if (
            partition.start.number != wanted.number
            or partition.fetched_count != partition.consumed_count
            or partition.paused
            or partition.retry_at_ms > now_ms
        ):
            return False
        end = last_batch(records)
        return end is not None and end.next_offset > wanted.offset

    def _has_nothing_else(self, node_id: int) -> bool:
        """Whether no other fetch waits, and no partition may move to another broker."""
        return not (
            self._fetcher.without_batch
            or self._buffer.is_short
            or self._plan.awaits_application(node_id)
            or not self._plan.uses_leaders()
        )

    def _may_send(
        self, connection: NodeConnection, in_flight: InFlightRequest, now_ms: int
    ) -> bool:
        """Whether the connection takes a request, and no metadata request goes first."""
        frame = in_flight.frame
        return (
            connection.state.sends(now_ms)
            and frame.written_bytes >= frame.size_bytes
            and self._metadata.update_due_in_ms(now_ms) > 0
        )

    def _asks_for_as_much(self, request: FetchRequest, added_bytes: int) -> bool:
        """Whether the next request may ask for as many bytes as this one, and for no more."""
        asked_bytes, others_bytes = self._fetcher.asked_bytes, 0
        if len(asked_bytes) > 1:
            others_bytes = sum(asked_bytes.values()) - request.bytes_max
        free_bytes = self._buffer.free_bytes() - added_bytes - others_bytes
        return min(request.terms.bytes_max, free_bytes) == request.bytes_max
