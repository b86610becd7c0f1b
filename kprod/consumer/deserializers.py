"""Deserializers: what turns keys and values back into an application's objects.

A deserializer runs in the thread that polls, once for each key or value that is not null. One that
raises does not lose the record: the position stays on it.

Thread-safety: one thread at a time.
Source: confluent-kafka 2.16 `SerializationContext`; KIP-334 for going on behind a record.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from kprod.error_text import error_text
from kprod.errors import DeserializationFailed
from kprod.model import Header, TimestampType
from kprod.record.blocks import ConsumerRecord
from kprod.serialization import SerializationContext, takes_context


class DeserializedRecord(NamedTuple):
    """A record whose key, value or both are an application's objects.

    Attributes:
        topic: Its topic.
        partition: 0-based.
        offset: In the partition.
        timestamp_ms: Milliseconds since 1970; −1 if the record has none.
        timestamp_type: Its origin; None if the record has no timestamp.
        leader_epoch: Of the leader that appended it; None if the format has none.
        key: As the deserializer made it.
        value: Likewise.
        headers: In order; a key may repeat.
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
        """Find out how each is called.

        Args:
            key: Of keys; None leaves them as they are.
            value: Of values; likewise.
        """
        self._key = None if key is None else _Deserializer(key, "key")
        self._value = None if value is None else _Deserializer(value, "value")

    @property
    def is_needed(self) -> bool:
        """Whether there is a deserializer at all."""
        return self._key is not None or self._value is not None

    def run(self, record: ConsumerRecord) -> DeserializedRecord:
        """Deserialize one record.

        Args:
            record: As it was read.

        Returns:
            The same with other key and value.

        Raises:
            DeserializationFailed: A deserializer raised an Exception.
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
    """One callable, and whether it wants a context."""

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
                " consumer.skip(error.record) continues behind it"
            )
            failed.record, failed.field = record, self._field
            raise failed from error
