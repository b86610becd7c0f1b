"""Rows that can never be records, sent to a topic of their own.

A dead letter has the row's key, value, headers and timestamp, and headers that say more:
`kprod.reason` (a value of `RowFault`), `kprod.error` (one sentence), `kprod.topic`,
`kprod.partition` and `kprod.timestamp` (milliseconds) as the row had them. A timestamp that no
record can have, or that the broker rejected, is in the header alone. Of a row that is too large,
the largest of key, value and headers is left out, and its size said: `kprod.value.bytes` and the
like.

Invariants.
    At most `LETTERS_MAX` dead letters with about `LETTER_BYTES_MAX` bytes are unsettled. A dead
    letter that is too large for its topic loses its largest field, at most three times. One that is
    rejected because of its timestamp is sent again without it: a row may have two faults.

Thread-safety: one task's.
"""

from collections import deque
from typing import Any, NamedTuple

from kprod import Producer, RecordFuture
from kprod.errors import BrokerError, KprodError, Persistence, RecordTooLarge
from kprod.protocol.error_table import ErrorCode
from kprod.spark.row_faults import RowFault
from kprod.spark.task_failure import TaskFailed

__all__ = ["LETTERS_MAX", "LETTER_BYTES_MAX", "DeadLetters"]

REASON_HEADER = "kprod.reason"
ERROR_HEADER = "kprod.error"
TOPIC_HEADER = "kprod.topic"
PARTITION_HEADER = "kprod.partition"
TIMESTAMP_HEADER = "kprod.timestamp"
ERROR_CHARACTERS_MAX = 500
TOPIC_BYTES_MAX = 500  # twice a legal name

LETTERS_MAX = 1_000
LETTER_BYTES_MAX = 8 << 20

_TOO_LARGE_CODES = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})

_REJECTION_CODES = frozenset({ErrorCode.INVALID_TIMESTAMP, ErrorCode.INVALID_RECORD})

_Headers = list[tuple[str, bytes | None]]


class _Letter(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: _Headers
    reasons: _Headers
    timestamp_ms: int | None

    @property
    def size_bytes(self) -> int:
        return sum(self._sizes().values())

    def without_largest(self) -> "_Letter":
        """Leave out the largest of key, value and own headers, and say its size instead."""
        sizes = self._sizes()
        field = max(sizes, key=sizes.__getitem__)
        size = (f"kprod.{field}.bytes", str(sizes[field]).encode())
        empty: dict[str, Any] = {field: [] if field == "headers" else None}
        return self._replace(reasons=[*self.reasons, size], **empty)

    def _sizes(self) -> dict[str, int]:
        own = sum(len(name) + len(value or b"") for name, value in self.headers)
        return {"value": len(self.value or b""), "key": len(self.key or b""), "headers": own}


class DeadLetters:
    """Sends dead letters, and waits where too many are unsettled.

    Args:
        producer: The task's.
        topic: Topic of the dead letters.
        timeout_ms: Longest wait for one of them; None waits as long as `delivery_timeout_ms`.
    """

    __slots__ = ("_producer", "_timeout_s", "_unsettled", "_unsettled_bytes", "topic")

    def __init__(self, producer: Producer, topic: str, timeout_ms: int | None) -> None:
        self._producer = producer
        self._timeout_s = None if timeout_ms is None else timeout_ms / 1_000
        self._unsettled: deque[tuple[RecordFuture, _Letter]] = deque()
        self._unsettled_bytes = 0
        self.topic: str = topic

    def __len__(self) -> int:
        return len(self._unsettled)

    def send(self, row: dict[str, Any], topic: str | None, fault: RowFault, error: str) -> None:
        """Send one; wait for older ones where too many are unsettled.

        Args:
            row: The record's fields by role, as `as_rows` gives them.
            topic: The row's intended topic; None if the row names it.
            fault: Why it could not.
            error: The same in a sentence.

        Raises:
            TaskFailed: An older one is not delivered.
            KprodError: It cannot be a record here either.
        """
        letter = _letter(row, topic, fault, error)
        if fault is RowFault.TOO_LARGE:
            letter = letter.without_largest()
        self._send(letter)
        while len(self) > LETTERS_MAX or self._unsettled_bytes > LETTER_BYTES_MAX:
            self._settle_oldest()

    def settle(self) -> None:
        """Wait until every one has arrived.

        Raises:
            TaskFailed: One did not.
        """
        while self._unsettled:
            self._settle_oldest()

    def _send(self, letter: _Letter) -> None:
        try:
            future = self._append(letter)
        except RecordTooLarge:
            if not letter.size_bytes:
                raise
            self._send(letter.without_largest())
            return
        self._unsettled.append((future, letter))
        self._unsettled_bytes += letter.size_bytes

    def _append(self, letter: _Letter) -> RecordFuture:
        return self._producer.send(
            self.topic,
            letter.value,
            key=letter.key,
            headers=letter.headers + letter.reasons,
            timestamp_ms=letter.timestamp_ms,
        )

    def _settle_oldest(self) -> None:
        future, letter = self._unsettled.popleft()
        self._unsettled_bytes -= letter.size_bytes
        error = future.exception(self._timeout_s)
        if error is None:
            return
        if letter.size_bytes and _is_too_large(error):
            self._send(letter.without_largest())
            return
        if letter.timestamp_ms is not None and _is_rejected(error):
            self._send(letter._replace(timestamp_ms=None))
            return
        raise TaskFailed(
            f"a dead letter for {self.topic!r} is not delivered: {type(error).__name__}: {error}"
        ) from error


def _letter(row: dict[str, Any], topic: str | None, fault: RowFault, error: str) -> _Letter:
    meant = row.get("topic") or b"" if topic is None else topic.encode()
    reasons: _Headers = [
        (REASON_HEADER, fault.value.encode()),
        (ERROR_HEADER, error[:ERROR_CHARACTERS_MAX].encode()),
        (TOPIC_HEADER, meant[:TOPIC_BYTES_MAX]),
    ]
    partition, timestamp_ms = row.get("partition"), row.get("timestamp")
    if partition is not None:
        reasons.append((PARTITION_HEADER, str(partition).encode()))
    if timestamp_ms is not None:
        reasons.append((TIMESTAMP_HEADER, str(timestamp_ms).encode()))
        if timestamp_ms < 0 or fault is RowFault.REJECTED:
            timestamp_ms = None
    headers: _Headers = [
        ((entry["key"] or b"").decode(errors="replace"), entry["value"])
        for entry in row.get("headers") or ()
        if entry is not None
    ]
    return _Letter(row.get("key"), row["value"], headers, reasons, timestamp_ms)


def _is_rejected(error: KprodError) -> bool:
    """Whether the broker rejected the record, or others of its batch."""
    return (
        isinstance(error, BrokerError)
        and error.code in _REJECTION_CODES
        and error.persistence is Persistence.NOT_PERSISTED
    )


def _is_too_large(error: KprodError) -> bool:
    if isinstance(error, BrokerError):
        return error.code in _TOO_LARGE_CODES
    return isinstance(error, RecordTooLarge)
