"""Plain values that cross the public border: partitions, nodes, what became of a record.

Thread-safety: all values here are immutable.
Source: Kafka's TopicPartition, Node and RecordMetadata (clients 4.3.1) for the names.
"""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from kprod.peer_text import peer_text

PORT_MAX = 65_535


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class Node(NamedTuple):
    """A broker as a client sees it: where to connect, and its id in the cluster."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def is_sound(self) -> bool:
        """Whether this can be connected to: an id of a broker, a host, a port from 1 to 65,535."""
        return self.node_id >= 0 and bool(self.host) and 0 < self.port <= PORT_MAX

    @property
    def address(self) -> str:
        """Host and port with a colon between, an IPv6 address in brackets, for people to read."""
        host = peer_text(self.host)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


class RecordMetadata(NamedTuple):
    """Position of an acknowledged record.

    Attributes:
        topic: The topic, as given to `send`.
        partition: Partition number, from 0.
        offset: −1 when the broker did not say (acks=0, or a duplicate whose offset it forgot).
        timestamp_ms: Milliseconds since 1970, the broker's if the topic stamps on append; −1 when
            unknown.
        serialized_key_size: Bytes; −1 for a null key.
        serialized_value_size: Bytes; −1 for a null value.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    serialized_key_size: int
    serialized_value_size: int


class OffsetAndTimestamp(NamedTuple):
    """An offset that was found by a time.

    Attributes:
        offset: Offset of the first record at or after the time.
        timestamp_ms: Timestamp of that record, in milliseconds since 1970.
        leader_epoch: Leader epoch of that record; −1 if the broker does not return it.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int = -1


class OffsetAndMetadata(NamedTuple):
    """A committed offset, or one to commit.

    Attributes:
        offset: Offset of the next record to read, at least 0.
        metadata: Text that the group keeps with it.
        leader_epoch: Leader epoch of the record before it; −1 if unknown.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class GroupMetadata(NamedTuple):
    """A member of a consumer group.

    Attributes:
        group_id: The group.
        generation: The group's generation; −1 outside of one.
        member_id: The id that the coordinator gave; empty for none.
        instance_id: `group_instance_id`; None for a dynamic member.
    """

    group_id: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


class Header(NamedTuple):
    """One header of a record; a record may repeat a key."""

    key: str
    value: bytes | None


class Record(NamedTuple):
    """A record as it was read back from a log."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class Acks(enum.IntEnum):
    """The acknowledgements that a broker waits for before it responds."""

    NONE = 0
    LEADER = 1
    ALL = -1


class Codec(enum.IntEnum):
    """Compression of a batch; the number is the one in the batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class LevelRange(NamedTuple):
    """A codec's range of levels, with Java's numbers.

    Attributes:
        minimum: Lowest level of the range.
        maximum: Highest level of the range; below `minimum` where the codec has no levels.
        default: Used when none is given; it may lie outside the range (gzip's −1).
        reason: The reason for the bounds, for error texts.
    """

    minimum: int
    maximum: int
    default: int
    reason: str

    def __bool__(self) -> bool:
        """Whether the codec has levels."""
        return self.minimum <= self.maximum

    def allows(self, level: int) -> bool:
        """Whether the codec takes `level`."""
        return level == self.default or self.minimum <= level <= self.maximum


class CodecFacts(NamedTuple):
    """Properties of one codec in the protocol and in the settings.

    Attributes:
        codec: The codec and its number.
        levels: Levels it takes; false where it has none.
        first_produce_version: Lowest version of Produce whose records may use it.
        first_fetch_version: Lowest version of Fetch that may return it.
        first_magic: Lowest record format that has it.
    """

    codec: Codec
    levels: LevelRange = LevelRange(0, -1, 0, "it has no levels")
    first_produce_version: int = 0
    first_fetch_version: int = 0
    first_magic: int = 0

    @property
    def name(self) -> str:
        """The codec's name as in settings, such as "zstd"."""
        return self.codec.name.lower()

    @property
    def level_setting(self) -> str:
        """The setting that has the codec's level, such as "compression_zstd_level"."""
        return f"compression_{self.name}_level"


CODECS: Mapping[int, CodecFacts] = MappingProxyType(
    {
        row.codec: row
        for row in (
            CodecFacts(Codec.NONE),
            CodecFacts(Codec.GZIP, LevelRange(1, 9, -1, "zlib has nine levels")),
            CodecFacts(Codec.SNAPPY),
            CodecFacts(Codec.LZ4, LevelRange(1, 17, 9, "Kafka's own range")),
            CodecFacts(  # KIP-110
                Codec.ZSTD,
                LevelRange(-131_072, 22, 3, "zstd's own range"),
                first_produce_version=7,
                first_fetch_version=10,
                first_magic=2,
            ),
        )
    }
)
"""The codecs by number. What compresses and decompresses is in `kprod.compression.codecs`."""


class TimestampType(enum.IntEnum):
    """Source of a record's timestamp; the number is the bit in the batch's attributes."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1
