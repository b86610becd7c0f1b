"""The records of one group in `__consumer_offsets` of either broker, made comparable.

Times, topic ids and member ids differ, and Kafka writes a group's members, and the tombstones of
its offsets, in the order of a hash map. All else is kept: keys, versions, sizes, order, tombstones.

Thread-safety: one thread.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kprod.broker.group.coordinator import partition_index
from kprod.broker.group.records import GROUP_TYPE
from kprod.broker.internal_topics import OFFSETS_TOPIC
from kprod.protocol.api import ApiKey
from kprod.protocol.codec import structure_codec
from kprod.record.reader import read_batches
from tests.conformance.sides import METADATA_VERSION, Side
from tests.conformance.wire import Target

_MASKED = {
    "commit_timestamp": "<time>",
    "current_state_timestamp": "<time>",
    "expire_timestamp": "<time>",
    "topic_id": "<id>",
}
_MEMBER_FIELDS = {"member_id", "leader"}


class Told(NamedTuple):
    """A record, comparable; size and version are −1 for a tombstone."""

    key: bytes
    version: int
    size: int
    fields: Any


class GroupLog:
    """The records of a group, from a point in time on."""

    def __init__(self, side: Side, group_id: str) -> None:
        """Find the group's partition, and begin at its end."""
        wish = {"topics": [{"name": OFFSETS_TOPIC}], "allow_auto_topic_creation": False}
        (topic,) = side.ask(ApiKey.METADATA, METADATA_VERSION, wish)["topics"]
        index = partition_index(group_id, len(topic["partitions"]))
        self._side = side
        self._place = Target(OFFSETS_TOPIC, topic["topic_id"], index)
        self._group = len(group_id).to_bytes(2) + group_id.encode()
        self._start = side.offset(self._place, -1)["offset"]

    def told(self, names: Mapping[str, str]) -> list[Told]:
        """Read the records.

        Args:
            names: A member's name by its id; other ids are all the same.

        Returns:
            All records of the group that were written since the beginning.
        """
        told: list[Told] = []
        for batch in self._batches():
            found = [_told(key, value, names) for key, value in batch]
            told += sorted(found) if all(it.fields is None for it in found) else found
        return told

    def _batches(self) -> Iterator[list[tuple[bytes, bytes | None]]]:
        (topic,) = self._side.fetch(self._place, self._start)["responses"]
        (answer,) = topic["partitions"]
        assert answer["error_code"] == 0, answer
        for batch in read_batches(memoryview(bytearray(answer["records"] or b""))):
            if not batch.is_control:
                rows = [(bytes(it.key or b""), it.value, it.offset) for it in batch]
                yield [
                    (key, None if value is None else bytes(value))
                    for key, value, offset in rows
                    if offset >= self._start and self._is_of_the_group(key)
                ]

    def _is_of_the_group(self, key: bytes) -> bool:
        rest = key[2:]
        return rest.startswith(self._group)


def _told(key: bytes, value: bytes | None, names: Mapping[str, str]) -> Told:
    if value is None:
        return Told(key, -1, -1, None)
    version = int.from_bytes(value[:2])
    is_group = int.from_bytes(key[:2]) == GROUP_TYPE
    name = "GroupMetadataValue" if is_group else "OffsetCommitValue"
    fields = structure_codec(name, version).decode(value[2:])
    return Told(key, version, len(value), _plain(fields, names))


def _plain(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _field(key, it, names) for key, it in value.items() if key != "client_host"}
    if isinstance(value, list):
        return sorted((_plain(it, names) for it in value), key=repr)
    return bytes(value) if isinstance(value, memoryview) else value


def _field(key: str, value: Any, names: Mapping[str, str]) -> Any:
    if key in _MASKED:
        return value if value == -1 else _MASKED[key]
    if key in _MEMBER_FIELDS:
        return None if value is None else names.get(value, "<new>")
    return _plain(value, names)
