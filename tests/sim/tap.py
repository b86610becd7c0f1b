"""Watches the wire: every frame that a client writes and reads, and rules for them.

A tap decodes both directions of every link at the client's socket. A frame counts as sent when its
first byte is written, and a response as received when the client has read its last byte.

Source: W1 to W6 of the wire's invariants; KIP-98 for producer ids, epochs and sequences.
"""

import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from kprod.producer.transaction.sequences import SEQUENCE_COUNT
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import request_codec, response_codec
from kprod.protocol.headers import decode_request_header, decode_response_header
from tests.sim.link import Link
from tests.sim.scheduler import MS

_IDENTITY = struct.Struct(">qhi")  # producer id, epoch, base sequence
_IDENTITY_AT = 43
_COUNT = struct.Struct(">i")
_COUNT_AT = 57
_RECORDS_AT = 61
_CREATED = struct.Struct(">q")
_CREATED_AT = 27
_CHECKED_AT = 21  # behind the checksum
_FRAME_SIZE = struct.Struct(">i")
_UNSAID = frozenset({-1, 6, 7, 13, 14, 16, 20, 41, 56})
"""Codes after which the batch may be in the log all the same."""

_TAKEN = (0, 46)
"""Codes that say that the batch is in the log."""
_TOO_LARGE = 10

Find = Callable[[str, str], object]


class Identity(NamedTuple):
    """A batch as a broker knows it."""

    producer_id: int
    epoch: int
    sequence: int


@dataclass(slots=True)
class Attempt:
    """One batch in one request.

    Attributes:
        partition: Topic (its name or its id as text) and index.
        identity: Producer id, epoch and sequence of the batch.
        checked: CRC of all bytes behind the checksum.
        records: CRC of the records alone, which another identity does not change.
        created_ms: Timestamp of the first record, by the wall clock.
        record_count: Number of records of the batch.
        link: The request's.
        code: Error code of the response; None before it, or without it.
        batch: Its bytes, while it is not known to be delivered.
        is_alone: No other batch of its partition was in flight beside it, as far as the client
            knew.
        ended_ns: When the response, or the end of the connection, was there.
    """

    partition: tuple[str, int]
    identity: Identity
    checked: int
    records: int
    created_ms: int
    record_count: int
    link: Link
    code: int | None = None
    batch: bytes = b""
    is_alone: bool = True
    ended_ns: int = 0

    @property
    def leaves_open(self) -> bool:
        """Whether the batch may be in the log by this attempt."""
        return self.code is None or self.code in _UNSAID or self.code in _TAKEN

    @property
    def is_rejected(self) -> bool:
        """Whether a broker has said that it did not append the batch."""
        return self.code is not None and self.code != 0 and self.code not in _UNSAID


@dataclass(slots=True)
class Request:
    """A request without response."""

    api_key: int
    version: int
    correlation_id: int
    attempts: list[Attempt] = field(default_factory=list)


class FrameStream:
    """Cuts a stream into frames."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    @property
    def is_between_frames(self) -> bool:
        """Whether the next byte begins a frame."""
        return not self._bytes

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add bytes; return the frames that are whole now, without their sizes."""
        self._bytes += data
        while len(self._bytes) >= _FRAME_SIZE.size:
            end = _FRAME_SIZE.size + _FRAME_SIZE.unpack_from(self._bytes)[0]
            if len(self._bytes) < end:
                return
            yield bytes(self._bytes[_FRAME_SIZE.size : end])
            del self._bytes[:end]


class ClientTap:
    """The rules for one client's links.

    Args:
        find: Takes the invariant's name and the observation.
        config: The client's.
        now_ns: The present instant.
        on_metadata: Told of each Metadata response and its version.
        count: Counts something rare.

    Attributes:
        wall_offset_ms: The wall clock less the monotonic one; None while it jumps.
        pipelined: Batches that were sent behind another of their partition.
        wrong_responses: Responses that do not fit the oldest request.
        failed: Attempts without success, in order of their ends.
        id_codes: Error codes of the responses to InitProducerId.

    """

    def __init__(
        self,
        find: Find,
        config: Any,
        now_ns: Callable[[], int],
        on_metadata: Callable[[bytes, int], object],
        count: Callable[[str], object],
    ) -> None:
        self._find = find
        self._on_metadata = on_metadata
        self._count = count
        self._config = config
        self._now_ns = now_ns
        self._up: dict[int, FrameStream] = defaultdict(FrameStream)
        self._down: dict[int, FrameStream] = defaultdict(FrameStream)
        self._waiting: dict[int, list[Request]] = defaultdict(list)  # by link
        self._seen: dict[tuple[tuple[str, int], Identity], list[Attempt]] = defaultdict(list)
        self._sent_records: dict[tuple[tuple[str, int], int], list[Attempt]] = defaultdict(list)
        self._too_large: set[tuple[int, Identity]] = set()
        self._in_flight: dict[tuple[str, int], list[Attempt]] = defaultdict(list)
        self._may_pipeline: dict[tuple[str, int], int] = {}  # epoch of the latest success
        self._stopped: dict[tuple[str, int], int] = {}  # when that ended, in responses
        self._begun: dict[int, int] = {}  # responses that came before a link's present frame
        self._begun_ns: dict[int, int] = {}
        self._responses = 0
        self._ended_ns: dict[tuple[tuple[str, int], Identity], int] = {}  # when it may go again
        self.failed: list[Attempt] = []
        self.id_codes: set[int] = set()
        self._attempted_ns: dict[int, int] = {}  # by port, if it has led to nothing
        self.wall_offset_ms: int | None = None
        self.pipelined = 0
        self.wrong_responses = 0

    def connected(self, link: Link) -> None:
        """W6: attempts at one broker keep their distance."""
        before_ns = self._attempted_ns.get(link.port)
        now_ns = self._now_ns()
        # A fifth less by jitter, and a tick of the clock and of the timer.
        least_ns = int(0.8 * self._config.reconnect_backoff_ms * MS) - 2 * MS
        if before_ns is not None and now_ns - before_ns < least_ns:
            apart_ms = (now_ns - before_ns) / MS
            self._find("W6", f"two attempts at port {link.port} within {apart_ms:.1f} ms")
        self._attempted_ns[link.port] = now_ns

    def wrote(self, link: Link, data: bytes) -> None:
        """Look at every request that is written whole."""
        self._attempted_ns.pop(link.port, None)
        if self._up[link.number].is_between_frames and not link.is_blocked:
            self._begun[link.number] = self._responses
            self._begun_ns[link.number] = self._now_ns()
        for frame in self._up[link.number].feed(data):
            self._take_request(link, frame)

    def read(self, link: Link, data: bytes) -> None:
        """Look at every response that is read whole."""
        for frame in self._down[link.number].feed(data):
            self._take_response(link, frame)

    def shut(self, link: Link) -> None:
        """Forget batches in flight: their outcome is unknown."""
        for request in self._waiting.pop(link.number, []):
            for attempt in request.attempts:
                self._end(attempt, None)

    def _take_request(self, link: Link, frame: bytes) -> None:
        header, offset = decode_request_header(frame)
        request = Request(header.api_key, header.api_version, header.correlation_id)
        waiting = self._waiting[link.number]
        if header.api_key == ApiKey.PRODUCE:
            body = request_codec(header.api_key, header.api_version).decode(frame[offset:])
            request.attempts = list(attempts_in(body, link))
            for attempt in request.attempts:
                self._check_deadline(attempt)
                self._begin(attempt)
            if not body["acks"]:
                for attempt in request.attempts:
                    self._end(attempt, 0)
                return
        waiting.append(request)
        if len(waiting) > self._config.max_in_flight_requests_per_connection:
            self._find("W6", f"{len(waiting)} requests in flight on link {link.number}")
        if header.api_key == ApiKey.METADATA:
            others = (other for many in self._waiting.values() for other in many)
            asking = sum(other.api_key == ApiKey.METADATA for other in others)
            if asking > 1:
                self._find("W6", f"{asking} Metadata requests in flight")

    def _check_deadline(self, attempt: Attempt) -> None:
        """W4: no byte of a batch is written after its delivery deadline."""
        if self.wall_offset_ms is None:
            return
        created_ns = (attempt.created_ms - self.wall_offset_ms) * MS
        late_ns = self._begun_ns.get(attempt.link.number, 0) - created_ns
        # A timestamp is taken when `send` begins, the deadline counts from where it has memory.
        late_ns -= (self._config.delivery_timeout_ms + self._config.max_block_ms) * MS
        if late_ns > 2 * MS:
            text = f"{attempt.partition} {attempt.identity} was written {late_ns / MS:.1f} ms"
            self._find("W4", f"{text} after its deadline")

    def _begin(self, attempt: Attempt) -> None:
        if attempt.identity.producer_id < 0:
            return
        key = (attempt.partition, attempt.identity)
        different = [other for other in self._seen[key] if other.checked != attempt.checked]
        # A batch that is too large is sent in parts, from its own sequence on: whichever of them
        # the broker appends first, it rejects the others. Any other batch gives its sequence to
        # the next one only if every attempt was rejected.
        if (attempt.partition[1], attempt.identity) not in self._too_large:
            for other in different:
                if not other.is_rejected:
                    text = f"{key} was sent with other bytes, and that ended with {other.code}"
                    self._find("W1", text)
        if attempt.identity.sequence + attempt.record_count > SEQUENCE_COUNT:
            self._count("sequences wrap")
        self._check_back_off(attempt)
        self._seen[key].append(attempt)
        self._check_renumbered(attempt)
        others = self._in_flight[attempt.partition]
        # Judged by what the client knew when it handed the frame over, which may be written slowly.
        stopped = self._stopped.get(attempt.partition, 0)
        is_known = stopped <= self._begun.get(attempt.link.number, 0)
        attempt.is_alone = is_known
        if any(other.link.port != attempt.link.port for other in others):
            ports = sorted({other.link.port for other in [*others, attempt]})
            self._find("W2", f"{attempt.partition} is in flight to ports {ports}")
        if others:
            for other in (*others, attempt):
                other.is_alone = False
            self.pipelined += 1
            if is_known and self._may_pipeline.get(attempt.partition) != attempt.identity.epoch:
                text = f"{attempt.partition} {attempt.identity} is behind another in flight"
                self._find("W3", f"{text}, without a success in this epoch since the last error")
        others.append(attempt)

    def _check_back_off(self, attempt: Attempt) -> None:
        """W7: a batch that was rejected goes to the same broker again after its back-off."""
        key = (attempt.partition, attempt.identity)
        ended_ns = self._ended_ns.pop(key, None)
        before = [other for other in self._seen[key] if other.checked == attempt.checked]
        if ended_ns is None or not before or before[-1].link.port != attempt.link.port:
            return
        config = self._config
        nominal_ms = min(config.retry_backoff_ms << (len(before) - 1), config.retry_backoff_max_ms)
        waited_ms = (self._now_ns() - ended_ns) / MS
        if waited_ms < 0.8 * nominal_ms - 2:
            text = f"{key} was sent again after {waited_ms:.1f} ms"
            self._find("W7", f"{text}, for the {len(before) + 1}th time")

    def _check_renumbered(self, attempt: Attempt) -> None:
        """W5: records get another identity only if every attempt under the old one was rejected."""
        same = self._sent_records[attempt.partition, attempt.records]
        for other in same:
            if other.identity != attempt.identity and not other.is_rejected:
                text = f"{attempt.partition} {other.identity} became {attempt.identity}"
                self._find("W5", f"{text}, and that had ended with {other.code}")
        same.append(attempt)

    def _take_response(self, link: Link, frame: bytes) -> None:
        waiting = self._waiting[link.number]
        correlation_id = int.from_bytes(frame[:4], "big")
        if not waiting or waiting[0].correlation_id != correlation_id:
            self.wrong_responses += 1
            return
        request = waiting.pop(0)
        if request.api_key == ApiKey.METADATA:
            self._on_metadata(frame, request.version)
        if request.api_key not in {ApiKey.PRODUCE, ApiKey.INIT_PRODUCER_ID}:
            return
        _, offset = decode_response_header(request.api_key, request.version, frame)
        body = response_codec(request.api_key, request.version).decode(frame[offset:])
        if request.api_key == ApiKey.INIT_PRODUCER_ID:
            self.id_codes.add(body["error_code"])
            return
        codes = {
            (_topic_of(topic), part["index"]): part["error_code"]
            for topic in body["responses"]
            for part in topic["partition_responses"]
        }
        for attempt in request.attempts:
            code = codes.get(attempt.partition)
            self._count(f"response {code}")
            self._end(attempt, code)

    def _end(self, attempt: Attempt, code: int | None) -> None:
        attempt.code = code
        attempt.ended_ns = self._now_ns()
        self._responses += 1
        others = self._in_flight[attempt.partition]
        if attempt in others:
            others.remove(attempt)
        if code == _TOO_LARGE:  # perhaps of a topic that is made again meanwhile
            self._too_large.add((attempt.partition[1], attempt.identity))
        if code not in _TAKEN:
            self.failed.append(attempt)
            if attempt.is_alone and attempt.is_rejected:
                self._ended_ns[attempt.partition, attempt.identity] = self._now_ns()
        else:
            attempt.batch = b""
        if code in _TAKEN:
            self._may_pipeline[attempt.partition] = attempt.identity.epoch
        else:
            self._may_pipeline.pop(attempt.partition, None)
            self._stopped[attempt.partition] = self._responses


def attempts_in(body: Mapping[str, Any], link: Link) -> Iterator[Attempt]:
    """Yield the batches of a Produce request."""
    for topic in body["topic_data"]:
        for part in topic["partition_data"]:
            batch = bytes(part["records"])
            identity = Identity(*_IDENTITY.unpack_from(batch, _IDENTITY_AT))
            checked = zlib.crc32(batch[_CHECKED_AT:])
            (created_ms,) = _CREATED.unpack_from(batch, _CREATED_AT)
            place = (_topic_of(topic), part["index"])
            (record_count,) = _COUNT.unpack_from(batch, _COUNT_AT)
            records = zlib.crc32(batch[_RECORDS_AT:])
            yield Attempt(
                place, identity, checked, records, created_ms, record_count, link, batch=batch
            )


def _topic_of(topic: Mapping[str, Any]) -> str:
    return topic.get("name") or _text_of(topic["topic_id"].int)


@lru_cache(1_024)
def _text_of(topic_id: int) -> str:
    return str(UUID(int=topic_id))
