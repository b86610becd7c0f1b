"""Faults and events of runs with a consumer: other writers' records, cuts, spoiled fetches.

`stream` is a topic that the run's producers do not know. Its batches are put into the broker's log,
as a producer's with transactions would be; so its log may be cut and deleted, which the oracle of
the producers would not understand.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kprod.broker.deleted_records import delete_records
from kprod.broker.partition_transactions import append_marker
from kprod.broker.replication import NO_LEADER, Partition
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import response_codec
from kprod.protocol.headers import decode_response_header
from kprod.record.control import ControlType, EndMarker
from kprod.record.reader import read_batches
from tests.oracle.record_v2 import encode_batch
from tests.sim.plan import Entry
from tests.sim.reader_plan import STREAM
from tests.sim.scheduler import MS

if TYPE_CHECKING:
    from tests.sim.world import World

FETCH_CODES = (-1, 2, 3, 5, 6, 7, 29, 56, 74, 75, 78, 100)
"""Codes of a broker that gives no records; 29 is final as far as a client knows."""
OFFSETS_CODES = (-1, 3, 5, 6, 7, 29, 56, 74, 75, 78)
_APIS = (ApiKey.FETCH, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH)
_FETCH_VERSIONS = (17, 12)
"""Those that a client and this broker agree on: with ids of topics, and without."""
_CHECKED_AT = 21  # the first byte of a batch that its checksum covers
_PRODUCER_IDS = (70_000, 70_001)
_CODECS = (0, 0, 0, 1, 2)
_DELTAS = (0, 1, 4, 5, 9, 10, 11, 17)
"""Offsets in a batch that compaction has left, from the batch's first."""


class Stream:
    """The other writers of one run.

    Args:
        world: World of the run.
    """

    def __init__(self, world: "World") -> None:
        self._world = world
        self._written = 0
        self._open: dict[tuple[int, int], None] = {}  # partition and producer id, in order

    def partition(self, choice: int) -> Partition | None:
        """Return one that is led by a broker; None if it is not."""
        count = self._world.plan.reader.get("stream", 0)
        if not count:
            return None
        partition = self._world.cluster._kprod.engine.partition(STREAM, choice % count)
        return None if partition.leader_id == NO_LEADER else partition

    def batches(self, partition: Partition) -> list[bytes]:
        """Return what a partition's log has."""
        return [bytes(batch.view) for batch in partition.log.batches()]

    def write(self, partition: Partition, choice: int) -> None:
        """Append a batch: of a transaction, with gaps, compressed, or none of these."""
        now_ms = self._world.scheduler.clock.timestamp_ms()
        count = 1 + (choice >> 3) % len(_DELTAS)
        rows: list[Any] = []
        for _ in range(count):
            name = b"s-%d" % self._written
            self._written += 1
            key = None if self._written % 3 else name
            value = (name + b"|").ljust(10 + (choice >> 5) % 700, b".")
            headers = [("h", name), ("h", None)] if choice & 4 else []
            rows.append((now_ms, key, value, headers))
        fields: dict[str, Any] = {"codec": _CODECS[choice % len(_CODECS)]}
        if choice & 64:
            producer_id = _PRODUCER_IDS[choice >> 7 & 1]
            self._open[partition.name.partition, producer_id] = None
            fields |= {"producer_id": producer_id, "producer_epoch": 0, "is_transactional": True}
            fields["base_sequence"] = 0
        if choice & 512:
            fields["offset_deltas"] = _DELTAS[:count]
        encoded = memoryview(bytearray(encode_batch(rows, **fields)))
        partition.store(next(read_batches(encoded, check_crc=False)), encoded, now_ms)
        self._world.network.broker_has_work()

    def end_one(self, choice: int) -> None:
        """End one transaction, by a commit or an abort."""
        first = choice % max(1, len(self._open))
        for index, producer_id in [*[*self._open][first:], *[*self._open][:first]]:
            partition = self.partition(index)
            if partition is None:
                continue
            del self._open[index, producer_id]
            is_commit = bool(choice & 256)
            self._world.count(f"transaction {'committed' if is_commit else 'aborted'}")
            append_marker(
                partition,
                EndMarker(ControlType.COMMIT if is_commit else ControlType.ABORT, 0),
                producer_id=producer_id,
                producer_epoch=0,
                timestamp_ms=self._world.scheduler.clock.timestamp_ms(),
            )
            self._world.network.broker_has_work()
            return

    def end_all(self) -> None:
        """End every transaction, so that a reader of committed records reaches the end.

        A cut may have taken a marker away, which opens its transaction again.
        """
        self._open = {
            (index, producer_id): None
            for index in range(self._world.plan.reader.get("stream", 0))
            for producer_id in _PRODUCER_IDS
        }
        for number in range(len(self._open)):
            self.end_one(number << 8)

    def cut(self, partition: Partition, choice: int) -> None:
        """Let an election lose the newest records, replicated or not."""
        log, book = partition.log, self._world.readers.book
        ends = [it.base_offset for it in log.batches() if it.base_offset >= log.log_start_offset]
        if not ends:
            return
        history = book.now((STREAM, partition.name.partition))
        history.look(self.batches(partition))
        newest = ends[-4:]  # a batch is cut off whole
        end = newest[(choice >> 4) % len(newest)]
        self._world.cluster.truncate(STREAM, partition.name.partition, end)
        history.cut(self.batches(partition))
        self._world.count("stream was cut")

    def delete(self, partition: Partition, choice: int) -> None:
        """Delete the oldest records, their segments too in half of the cases."""
        log, book = partition.log, self._world.readers.book
        count = partition.high_watermark - log.log_start_offset
        if count < 1:
            return
        history = book.now((STREAM, partition.name.partition))
        history.look(self.batches(partition))
        delete_records(partition, log.log_start_offset + 1 + (choice >> 4) % count)
        if choice & 1:
            self._world.cluster.apply_retention(STREAM)
        history.start = log.log_start_offset
        self._world.network.broker_has_work()
        self._world.count("stream lost its oldest records")


def _stream_write(world: "World", entry: Entry) -> None:
    if (partition := world.readers.stream.partition(entry["choice"])) is not None:
        world.readers.stream.write(partition, entry["choice"])


def _stream_end(world: "World", entry: Entry) -> None:
    world.readers.stream.end_one(entry["choice"])


def _stream_cut(world: "World", entry: Entry) -> None:
    if (partition := world.readers.stream.partition(entry["choice"])) is not None:
        world.readers.stream.cut(partition, entry["choice"])


def _stream_delete(world: "World", entry: Entry) -> None:
    if (partition := world.readers.stream.partition(entry["choice"])) is not None:
        world.readers.stream.delete(partition, entry["choice"])


def _fetch_error(world: "World", entry: Entry) -> None:
    code = FETCH_CODES[entry["choice"] % len(FETCH_CODES)]
    world.cluster.faults.fail_next(ApiKey.FETCH, code)


def _offsets_error(world: "World", entry: Entry) -> None:
    code = OFFSETS_CODES[entry["choice"] % len(OFFSETS_CODES)]
    api = ApiKey.LIST_OFFSETS if entry["choice"] & 64 else ApiKey.OFFSET_FOR_LEADER_EPOCH
    world.cluster.faults.fail_next(api, code)


def _fetch_lost(world: "World", entry: Entry) -> None:
    """Lose a request of the consumer's, its response, or a part of that."""
    choice, faults = entry["choice"], world.cluster.faults
    api, handled = _APIS[choice % len(_APIS)], bool(choice & 64)
    losses: tuple[Callable[[], object], ...] = (
        lambda: faults.drop(api, handled=handled),
        lambda: faults.delay(api, 4 * entry["for_ms"], handled=handled),
        lambda: faults.disconnect(api, handled=handled),
        lambda: faults.cut(api, (choice >> 7) % 300),
        lambda: faults.omit(api, handled=True),
        lambda: faults.empty(api, handled=True),
    )
    losses[(choice >> 3) % len(losses)]()


def _fetch_throttle(world: "World", entry: Entry) -> None:
    world.cluster.throttle(ApiKey.FETCH, entry["for_ms"])
    until_ns = world.scheduler.now_ns + 2 * entry["for_ms"] * MS
    world.throttled_until_ns = max(world.throttled_until_ns, until_ns)
    world.later(entry["for_ms"], lambda: world.cluster.throttle(ApiKey.FETCH, 0))


def _corrupt(world: "World", entry: Entry) -> None:
    """Change a byte of a batch in flight; the broker's copy stays as it is."""
    is_done: list[bool] = []

    def spoil(frame: bytes) -> bytes:
        spoiled = frame if is_done else _spoiled(frame, entry["choice"])
        if spoiled != frame:
            is_done.append(True)
            world.count("batch was corrupted")
        return spoiled

    world.cluster.faults.rewrite(ApiKey.FETCH, spoil, times=4)


def _spoiled(frame: bytes, choice: int) -> bytes:
    for version in _FETCH_VERSIONS:
        try:
            _, at = decode_response_header(ApiKey.FETCH, version, frame)
            codec = response_codec(ApiKey.FETCH, version)
            body = codec.decode(frame[at:])
        except Exception:  # noqa: BLE001, S112 - of the other version
            continue
        if codec.encode(body) != frame[at:]:
            continue
        answers = [it for topic in body["responses"] for it in topic["partitions"]]
        for answer in answers:
            records = bytearray(answer["records"] or b"")
            if len(records) > _CHECKED_AT:
                size = min(len(records), 12 + int.from_bytes(records[8:12], "big"))
                records[_CHECKED_AT + choice % (size - _CHECKED_AT)] ^= 1 + choice % 255
                answer["records"] = bytes(records)
                return frame[:at] + codec.encode(body)
    return frame


def _sessions_lost(world: "World", _: Entry) -> None:
    world.cluster.faults.expire_sessions()


def _reader_freeze(world: "World", entry: Entry) -> None:
    for reader in world.readers.open:
        reader.freeze(entry["for_ms"])


def _reader_wakes(world: "World", _: Entry) -> None:
    for reader in world.readers.open:
        reader.selector.wakeup()


FUNCTIONS: Mapping[str, Callable[["World", Entry], None]] = {
    "stream_write": _stream_write,
    "stream_end": _stream_end,
    "stream_cut": _stream_cut,
    "stream_delete": _stream_delete,
    "fetch_error": _fetch_error,
    "fetch_lost": _fetch_lost,
    "fetch_throttle": _fetch_throttle,
    "offsets_error": _offsets_error,
    "corrupt": _corrupt,
    "sessions_lost": _sessions_lost,
    "reader_freeze": _reader_freeze,
    "reader_wakes": _reader_wakes,
}
"""Every kind by its name in a plan."""
