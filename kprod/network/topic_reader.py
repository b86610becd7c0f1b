"""Reads a topic from its start to its present end, without a consumer group.

`demo` verifies with it, `dump` prints with it. The caller's thread drives the reader's own
`NetworkClient` while it iterates: each turn sends every idle leader a request for the missing data
of its partitions (start offset, end offset, records), then polls.

Records of open and aborted transactions are returned, too; transaction markers are not.

Invariants.
    The offsets of a partition are ascending without duplicates. At most one request for each broker
    is in flight.

Thread-safety: one thread.
Source: Kafka's Fetcher and OffsetFetcher (clients 4.3.1); FetchRequest.json, whose versions 4 to 12
    identify topics by name.
"""

import random
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from kprod.clock import SystemClock
from kprod.config import ClientConfig
from kprod.config.address import bootstrap_addresses
from kprod.errors import (
    CorruptRecord,
    Disconnected,
    KprodError,
    MetadataTimeout,
    RequestTimeout,
    UnknownPartition,
    UnknownTopic,
)
from kprod.model import Node, Record
from kprod.network.client_request import ClientRequest, Outcome
from kprod.network.connection_context import NetworkIO
from kprod.network.reading_position import BACKOFF, ReadingPosition, last_offset_of
from kprod.network.reading_requests import fetch_body, list_offsets_body, reading_terms
from kprod.network.standalone_client import open_client
from kprod.protocol.api import ApiKey
from kprod.protocol.error_table import ErrorCode, error_for
from kprod.record.entries import LogEntry, read_entries
from kprod.wording import counted

_FETCH_VERSIONS = (4, 12)  # from version 13 on topics are identified by id
_LIST_OFFSETS_VERSIONS = (1, 11)  # older responses have a list of segments
_TURN_MS = 100  # back-offs are checked at least this often


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderOptions:
    """Sizes and timeouts of a reader.

    Attributes:
        fetch_bytes_max: Maximum size of a response; a single batch may be larger.
        partition_fetch_bytes_max: Maximum size for each partition.
        fetch_wait_ms: Maximum wait of the broker if there are no records.
        timeout_ms: Maximum time without any progress.
        topic_wait_ms: Maximum time for an unknown topic to appear.
        check_crc: Whether to verify checksums.
    """

    fetch_bytes_max: int = 32 << 20
    partition_fetch_bytes_max: int = 4 << 20
    fetch_wait_ms: int = 500
    timeout_ms: int = 30_000
    topic_wait_ms: int = 5_000
    check_crc: bool = True


class TopicReader:
    """Iterates `(partition, record)` over a topic.

    Attributes:
        batch_count: Number of record batches (or messages of older formats) read so far.
    """

    __slots__ = (
        "_arrived",
        "_busy_nodes",
        "_client",
        "_clock",
        "_error",
        "_last_progress_ms",
        "_metadata",
        "_opened",
        "_options",
        "_partitions",
        "_positions",
        "_rng",
        "_topic",
        "batch_count",
    )

    def __init__(  # noqa: PLR0913 - what a reader needs of the world
        self,
        cluster: str | Sequence[str] | ClientConfig,
        topic: str,
        *,
        partitions: Iterable[int] | None = None,
        options: ReaderOptions | None = None,
        clock: SystemClock | None = None,
        rng: random.Random | None = None,
        io: NetworkIO | None = None,
    ) -> None:
        """Create a reader; it connects on first use.

        Args:
            cluster: `bootstrap_servers` as for the producer, or a client configuration.
            topic: Name of an existing topic; it is not created.
            partitions: The partitions to read; None for all.
            options: Sizes and timeouts.
            clock: The clock; the system's by default.
            rng: Random numbers for jitter and for the order of partitions.
            io: Sockets, selector and resolver; the system's by default.

        Raises:
            ConfigError: The addresses are invalid.
        """
        self._topic = topic
        self._partitions = None if partitions is None else sorted(set(partitions))
        self._options = options or ReaderOptions()
        self._rng = rng or random.Random()  # noqa: S311 - jitter
        self._opened = open_client(_config_of(cluster), clock=clock, rng=self._rng, io=io)
        self._client, self._metadata, self._clock = self._opened
        self._positions: list[ReadingPosition] = []
        self._arrived: deque[tuple[ReadingPosition, memoryview]] = deque()
        self._busy_nodes: set[int] = set()
        self._last_progress_ms = self._clock.now_ms()
        self._error: KprodError | None = None
        self.batch_count: int = 0

    def __enter__(self) -> Self:
        """Return the reader."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def __iter__(self) -> Iterator[tuple[int, Record]]:
        """Yield records, up to the end offset that each partition had at first.

        Yields:
            Partition number and record; ascending by offset within a partition.

        Raises:
            UnknownTopic: The topic does not exist.
            UnknownPartition: A requested partition does not exist.
            MetadataTimeout: No broker responded about the topic in time.
            RequestTimeout: There was no progress for `timeout_ms`.
            CorruptRecord: A batch is malformed or has a wrong checksum.
            BrokerError: The broker returned an error that is not retriable.
        """
        self._find_positions()
        while self._arrived or not all(position.is_finished for position in self._positions):
            while self._arrived:
                position, records = self._arrived.popleft()
                yield from self._read(position, records)
            self._turn()

    def entries(self) -> Iterator[tuple[int, LogEntry]]:
        """Like iteration, but yields batches and messages as they are stored.

        Yields:
            Partition number and entry, including transaction markers. An entry may contain records
            before the start or after the end.

        Raises:
            KprodError: As for iteration.
        """
        self._find_positions()
        while self._arrived or not all(position.is_finished for position in self._positions):
            while self._arrived:
                yield from self._read_entries(*self._arrived.popleft())
            self._turn()

    def ranges(self) -> Mapping[int, tuple[int, int]]:
        """Determine the range of offsets to read, before reading.

        Returns:
            Start offset and end offset by partition; the end is exclusive.

        Raises:
            KprodError: As for iteration.
        """
        self._find_positions()
        while any(position.end_offset is None for position in self._positions):
            self._turn()
        return {
            position.partition: (position.start_offset or 0, position.end_offset or 0)
            for position in self._positions
        }

    def close(self) -> None:
        """Close the connections."""
        self._opened.close()

    def _find_positions(self) -> None:
        """Wait for the topic's metadata, once."""
        begin_ms = self._clock.now_ms()
        while not self._positions:
            now_ms = self._clock.now_ms()
            self._metadata.add_topic(self._topic, now_ms)
            count = self._metadata.snapshot.partition_count(self._topic)
            if count is None:
                self._raise_if_topic_is_missing(now_ms - begin_ms)
                self._client.poll(_TURN_MS, now_ms)
                continue
            wanted = range(count) if self._partitions is None else self._partitions
            for partition in wanted:
                if not 0 <= partition < count:
                    raise UnknownPartition(
                        f"topic {self._topic!r} has partitions 0 to {count - 1}, not {partition}"
                    )
            self._positions = [ReadingPosition(partition) for partition in wanted]
            self._last_progress_ms = now_ms
            if not self._positions:
                return

    def _raise_if_topic_is_missing(self, waited_ms: int) -> None:
        error = self._metadata.error_of(self._topic)
        if error is not None and (not error.retriable or waited_ms >= self._options.topic_wait_ms):
            if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopic(f"the cluster has no topic {self._topic!r}")
            raise error
        if waited_ms >= self._options.timeout_ms:
            raise MetadataTimeout(
                f"no metadata of topic {self._topic!r} within {self._options.timeout_ms} ms:"
                f" {self._metadata.trouble(self._topic)}"
            )

    def _turn(self) -> None:
        """Send a request to every idle broker, then process responses."""
        if self._error is not None:
            raise self._error
        now_ms = self._clock.now_ms()
        if now_ms - self._last_progress_ms >= self._options.timeout_ms:
            self._raise_for_no_progress()
        self._metadata.add_topic(self._topic, now_ms)
        for node, positions in self._by_leader(now_ms).items():
            if node.node_id not in self._busy_nodes and self._client.ready(node, now_ms):
                self._ask(node, positions, now_ms)
        self._client.poll(_TURN_MS, now_ms)

    def _by_leader(self, now_ms: int) -> dict[Node, list[ReadingPosition]]:
        """Group unfinished partitions by leader; requests metadata for a missing leader."""
        by_leader: dict[Node, list[ReadingPosition]] = {}
        held = {position.partition for position, _ in self._arrived}
        for position in self._positions:
            if position.is_finished or position.partition in held or position.retry_at_ms > now_ms:
                continue
            leader = self._metadata.snapshot.leader_of(self._topic, position.partition)
            if leader is None:
                self._metadata.request_update()
                self._put_off(position, now_ms)
            else:
                by_leader.setdefault(leader, []).append(position)
        return by_leader

    def _ask(self, node: Node, positions: list[ReadingPosition], now_ms: int) -> None:
        """Request start offsets, then end offsets, then records."""
        timestamp = next(
            (wanted for each in positions if (wanted := each.wanted_timestamp) is not None), None
        )
        if timestamp is None:
            # The broker serves the first partition first, so the order is rotated.
            shift = self._rng.randrange(len(positions))
            asked = positions[shift:] + positions[:shift]
            api_key, versions = ApiKey.FETCH, _FETCH_VERSIONS
            body = fetch_body(
                self._topic,
                asked,
                wait_ms=self._options.fetch_wait_ms,
                bytes_max=self._options.fetch_bytes_max,
                partition_bytes_max=self._options.partition_fetch_bytes_max,
            )
        else:
            asked = [each for each in positions if each.wanted_timestamp == timestamp]
            api_key, versions = ApiKey.LIST_OFFSETS, _LIST_OFFSETS_VERSIONS
            body = list_offsets_body(self._topic, asked, timestamp)
        self._busy_nodes.add(node.node_id)
        self._client.send(
            ClientRequest(
                node_id=node.node_id,
                api_key=api_key,
                versions=versions,
                body=body,
                on_complete=self._on_complete,
                **reading_terms(len(asked)),
            ),
            now_ms,
        )

    def _on_complete(self, outcome: Outcome) -> None:
        self._busy_nodes.discard(outcome.node_id)
        if outcome.body is None:
            if not isinstance(outcome.error, Disconnected | RequestTimeout):
                self._error = outcome.error
            return
        if code := outcome.body.get("error_code", 0):
            self._error = error_for(code, f"topic {self._topic}: the fetch was rejected")
            return
        topics = outcome.body.get("responses") or outcome.body.get("topics") or ()
        positions = {position.partition: position for position in self._positions}
        for entry in topics:
            for answer in entry["partitions"]:
                position = positions.get(answer["partition_index"])
                if position is not None:
                    self._take_response(position, answer, outcome.now_ms)

    def _take_response(
        self, position: ReadingPosition, answer: Mapping[str, Any], now_ms: int
    ) -> None:
        if code := answer["error_code"]:
            self._take_closed_error(position, code, now_ms)
        elif position.wanted_timestamp is not None:
            position.take_offset(max(int(answer["offset"]), 0))
            self._last_progress_ms = now_ms
        elif answer["records"]:
            self._arrived.append((position, memoryview(answer["records"])))

    def _take_closed_error(self, position: ReadingPosition, code: int, now_ms: int) -> None:
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            position.begin_again()
            self._put_off(position, now_ms)
            return
        error = error_for(code, f"topic {self._topic}, partition {position.partition}")
        if not error.retriable:
            self._error = error
            return
        if error.refresh_metadata:
            self._metadata.request_update()
        self._put_off(position, now_ms)

    def _put_off(self, position: ReadingPosition, now_ms: int) -> None:
        position.retry_at_ms = now_ms + BACKOFF.wait_ms(position.failures, self._rng)
        position.failures += 1

    def _read(self, position: ReadingPosition, records: memoryview) -> Iterator[tuple[int, Record]]:
        """Yield the new records of one partition's response."""
        entries = read_entries(records, check_crc=self._options.check_crc)
        while (entry := self._next_entry(position, entries)) is not None:
            self.batch_count += last_offset_of(entry) >= position.next_offset
            for record in position.unread(entry):
                yield position.partition, record
            self._last_progress_ms = self._clock.now_ms()

    def _read_entries(
        self, position: ReadingPosition, records: memoryview
    ) -> Iterator[tuple[int, LogEntry]]:
        """Yield the new entries of one partition's response."""
        entries = read_entries(records, check_crc=self._options.check_crc)
        while (entry := self._next_entry(position, entries)) is not None:
            last_offset = last_offset_of(entry)
            if last_offset >= position.next_offset and not position.is_finished:
                position.advance(last_offset + 1)
                yield position.partition, entry
            self._last_progress_ms = self._clock.now_ms()

    def _next_entry(
        self, position: ReadingPosition, entries: Iterator[LogEntry]
    ) -> LogEntry | None:
        try:
            return next(entries, None)
        except CorruptRecord as error:
            raise CorruptRecord(
                f"topic {self._topic!r}, partition {position.partition}, at or after offset"
                f" {position.next_offset}: {error}"
            ) from error

    def _raise_for_no_progress(self) -> None:
        stuck = [position for position in self._positions if not position.is_finished]
        places = (
            f"{each.partition} at {each.next_offset} of {each.end_offset}" for each in stuck[:3]
        )
        where = ", ".join(places)
        raise RequestTimeout(
            f"nothing was read from topic {self._topic!r} for {self._options.timeout_ms} ms;"
            f" {counted(len(stuck), 'partition is', 'partitions are')} unfinished ({where}):"
            f" {self._metadata.trouble()}"
        )


def _config_of(cluster: str | Sequence[str] | ClientConfig) -> ClientConfig:
    if not isinstance(cluster, ClientConfig):
        addresses = bootstrap_addresses(cluster)
        cluster = ClientConfig(bootstrap_servers=addresses, client_id="kprod-reader")
    return cluster.changed(allow_auto_create_topics=False)
