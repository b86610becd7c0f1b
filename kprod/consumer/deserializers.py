"""Deserializers: convert keys and values to an application's objects.

A deserializer runs in the polling thread, once for each key or value that is not null. If it
raises, the record is not lost: the position stays at it.

Thread-safety: one thread at a time.
Source: confluent-kafka 2.16 `SerializationContext`; KIP-334 for continuing after a record.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from kprod.error_text import error_text
from kprod.errors import DeserializationFailed
from kprod.model import Header, TimestampType
from kprod.record.blocks import ConsumerRecord
from kprod.serialization import SerializationContext, takes_context


class DeserializedRecord(NamedTuple):
    """A record with a deserialized key, value or both.

    Attributes:
        topic: Its topic.
        partition: Partition number, from 0.
        offset: Offset in the partition.
        timestamp_ms: Milliseconds since 1970; −1 if the record has none.
        timestamp_type: Whether producer or broker set the timestamp; None without a timestamp.
        leader_epoch: Epoch of the leader that appended it; None if the format has none.
        key: The deserialized key.
        value: The deserialized value.
        headers: Headers in order; keys may repeat.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: TimestampType | None
    leader_epoch: int | None
    key: Any
    value: Any
    headers: tuple[Header, ...]


class RecordDeserializers:
    """The deserializers of one consumer."""

    __slots__ = ("_key", "_value")

    def __init__(self, key: Callable[..., Any] | None, value: Callable[..., Any] | None) -> None:
        """Determine how to call each deserializer.

        Args:
            key: Deserializer of keys; None leaves keys unchanged.
            value: Deserializer of values; None leaves values unchanged.
        """
        self._key = None if key is None else _Deserializer(key, "key")
        self._value = None if value is None else _Deserializer(value, "value")

    @property
    def is_needed(self) -> bool:
        """Whether there is any deserializer."""
        return self._key is not None or self._value is not None

    def run(self, record: ConsumerRecord) -> DeserializedRecord:
        """Deserialize one record.

        Args:
            record: The record as it was read.

        Returns:
            The record with deserialized key and value.

        Raises:
            DeserializationFailed: A deserializer raised an `Exception`.
        """
        return DeserializedRecord(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp_ms,
            record.timestamp_type,
            record.leader_epoch,
            record.key if self._key is None else self._key.run(record.key, record),
            record.value if self._value is None else self._value.run(record.value, record),
            record.headers,
        )


class _Deserializer:
    """A deserializer, and whether it takes a context."""

    __slots__ = ("_call", "_field", "_takes_context")

    def __init__(self, call: Callable[..., Any], field: Literal["key", "value"]) -> None:
        self._call = call
        self._field = field
        self._takes_context = takes_context(call)

    def run(self, given: Any, record: ConsumerRecord) -> Any:  # noqa: ANN401 - an application's own
        if given is None:
            return None
        try:
            if not self._takes_context:
                return self._call(given)
            where = SerializationContext(
                topic=record.topic, field=self._field, headers=list(record.headers)
            )
            return self._call(given, where)
        except Exception as error:
            failed = DeserializationFailed(
                f"the {self._field}_deserializer failed for topic {record.topic!r}, partition"
                f" {record.partition}, offset {record.offset}: {error_text(error)};"
                " consumer.skip(error.record) continues after it"
            )
            failed.record, failed.field = record, self._field
            raise failed from error
