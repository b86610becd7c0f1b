"""Write `docs/errors.md` from the tree of errors, the codes and what delivery does with each.

The facts known to the code are taken from it; the advice is written here. Run by `make docs`;
a test compares the page with what this module returns.
"""

import itertools
from pathlib import Path

from kprod import errors
from kprod.producer.produce_response import (
    FATAL_CODES,
    MAYBE_PERSISTED_CODES,
    SEQUENCE_CODES,
    TAKEN_CODES,
)
from kprod.protocol.error_table import ERRORS, ErrorCode

PAGE = Path(__file__).parent.parent / "docs" / "errors.md"

_HEAD = """\
# Errors

Generated from the code by `make docs`; do not edit. [Delivery guarantees](guarantees.md) says how
to deal with them; this page is for looking one up.

All are in `kprod.errors` and derive from `KprodError`; those of a broker derive from `BrokerError`,
have a class for each code in `kprod.protocol.error_table`, and carry `code` and `name`. Every error
can be pickled. `retriable` says that the same request may succeed later: kprod has then tried until
the delivery timeout, or as often as `retries` allows. `persistence` says, of an error that ends a
send, whether the record may be in the log.
"""

_RAISED_HEAD = """
## Raised by a call

Nothing of the record was sent, and it has no future and no callback. `send` also raises `TypeError`
and `ValueError` for arguments that no producer could send.

| error | when | what to do |
|---|---|---|
"""

_RAISED = {
    "ConfigError": "Correct the setting that the text names.",
    "ClosedError": "Make another producer. As an outcome: see below.",
    "ProducerForked": "Make a producer in the child, after the fork.",
    "SerializationError": "Correct the value or the serializer; its own error is the cause.",
    "RecordTooLarge": "Send less in one record, or raise the setting that the text names, and the "
    "topic's `max.message.bytes` with it.",
    "UnknownTopic": "Make the topic, or correct its name.",
    "UnknownPartition": "Correct the partition or the partitioner.",
    "BufferTimeout": "The brokers are slower than the application: send slower, or raise "
    "`buffer_memory`. Nothing was lost; the same record may be sent again.",
    "MetadataTimeout": "The text says what stood in the way: an address, a name, a rejection. Send "
    "again when it is out of the way.",
}

_READING_HEAD = """
## Raised by a consumer

No record is lost by any of them: the next `poll` continues where the positions are.

| error | when | what to do |
|---|---|---|
"""

_READING = {
    "NoOffset": "Seek to an offset, or let `auto_offset_reset` choose one.",
    "LogTruncated": "Seek to where reading shall continue; `end_offset` is where the log is the"
    " same.",
    "CorruptRecord": "Its `topic`, `partition` and `offset` say where; seek past it to continue.",
    "DeserializationFailed": "Look at `error.record`; `consumer.skip(error.record)` continues.",
    "CommitFailed": "Poll: the member joins again; its records are another member's.",
    "CommitRetriable": "Poll, then commit again.",
    "WakeupError": "Poll again to continue.",
    "ConcurrentPoll": "Read with one thread, or one consumer for each thread.",
    "ConsumerForked": "Make a consumer in the child, after the fork.",
    "UnknownTopic": "Make the topic, or correct its name.",
}

_ENDS_HEAD = """
## The outcome of an accepted record

A future raises one of these errors, and a callback gets it; each has its `persistence`.

| error | when | what to do |
|---|---|---|
"""

_ENDS = {
    "DeliveryTimeout": "Look at `persistence`. The text says what the batch waited for.",
    "BrokerError": "By its code, below.",
    "Disconnected": "Only where `retries` is small: else it is tried again.",
    "RequestTimeout": "Only where `retries` is small: else it is tried again.",
    "ClosedError": "The producer was closed before the record was settled. Give `close` more time.",
    "UnknownPartition": "The topic was created again with fewer partitions: send again.",
    "Purged": "The application asked for it, with `purge`.",
    "UnsupportedVersion": "The broker is older than kprod can talk to.",
    "UnsupportedCodec": "Choose a codec that the broker knows.",
    "RecordsFailed": "Look at each outcome that the receipt names.",
    "KprodError": "Something failed inside the producer; its cause tells what.",
}

_OTHER_HEAD = """
## Others

| error | when |
|---|---|
"""

_OTHER = (
    "KprodTimeout",
    "RecordError",
    "ConnectionFailed",
    "AuthenticationFailed",
    "TlsFailed",
    "LocalProtocolError",
    "RemoteProtocolError",
    "TransactionError",
    "AbortableError",
    "FencedError",
    "CommitUnknown",
)

# For coming parts: transactions.
NOT_RAISED_YET = {
    "TransactionError",
    "AbortableError",
    "FencedError",
    "CommitUnknown",
}

_CODES_HEAD = """
## Codes in a broker's answer

The table shows how kprod handles each error code of a broker for a batch, and the `persistence` of
the record's error if the batch fails with that code. A code that is not listed fails the batch; an
unknown code leaves open whether the records are in the log.

| code | kprod | persistence | what to do |
|---|---|---|---|
"""

_CODES = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "Look into the broker's log.",
    ErrorCode.CORRUPT_MESSAGE: "Bytes changed in transit: check the network and proxies.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "Was the topic deleted?",
    ErrorCode.LEADER_NOT_AVAILABLE: "Wait for the election; if it lasts, look at the brokers.",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "Nothing: leaders move.",
    ErrorCode.REQUEST_TIMED_OUT: "Replicas are slow: look at the followers.",
    ErrorCode.MESSAGE_TOO_LARGE: "Raise the topic's `max.message.bytes`, or send less in one.",
    ErrorCode.NETWORK_EXCEPTION: "Look at the broker.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "Choose a legal name, and none of the cluster's own.",
    ErrorCode.RECORD_LIST_TOO_LARGE: "Lower `batch_size` below the topic's `segment.bytes`.",
    ErrorCode.NOT_ENOUGH_REPLICAS: "Fewer replicas are in sync than `min.insync.replicas`.",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "The same, found after the leader had written.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Allow this client to write to the topic.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Allow this client idempotent writes.",
    ErrorCode.INVALID_TIMESTAMP: "Correct `timestamp_ms`; the topic bounds it.",
    ErrorCode.UNSUPPORTED_VERSION: "The broker is too old for the request.",
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "The topic's format is too old for headers.",
    ErrorCode.POLICY_VIOLATION: "The broker's own policy rejects it; its text says why.",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "The broker has lost records: look at unclean "
    "elections.",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "Nothing.",
    ErrorCode.INVALID_PRODUCER_EPOCH: "Another producer has taken this one's identity.",
    ErrorCode.KAFKA_STORAGE_ERROR: "The broker's disk failed.",
    ErrorCode.UNKNOWN_PRODUCER_ID: "Nothing: the broker forgot a quiet producer.",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "Choose a codec that the broker knows.",
    ErrorCode.INVALID_RECORD: "The broker's text names the record: a compacted topic needs keys.",
    ErrorCode.PRODUCER_FENCED: "Close this producer.",
    ErrorCode.UNKNOWN_TOPIC_ID: "Nothing: the topic was deleted and created again.",
}


def page() -> str:
    """Return the whole page."""
    parts = [_HEAD, _RAISED_HEAD]
    parts += [f"| `{name}` | {_meaning(name)} | {what} |\n" for name, what in _RAISED.items()]
    parts.append(_READING_HEAD)
    parts += [f"| `{name}` | {_meaning(name)} | {what} |\n" for name, what in _READING.items()]
    parts.append(_ENDS_HEAD)
    parts += [f"| `{name}` | {_meaning(name)} | {what} |\n" for name, what in _ENDS.items()]
    parts.append(_CODES_HEAD)
    parts += itertools.starmap(_code_line, _CODES.items())
    parts.append(_OTHER_HEAD)
    parts += [f"| `{name}` | {_meaning(name)}{_not_yet(name)} |\n" for name in _OTHER]
    return "".join(parts)


def covered() -> set[str]:
    """Return the names of the errors that the page has."""
    return {*_RAISED, *_READING, *_ENDS, *_OTHER}


def _not_yet(name: str) -> str:
    return " Not raised yet." if name in NOT_RAISED_YET else ""


def _meaning(name: str) -> str:
    """The first paragraph of the class's docstring."""
    text = getattr(errors, name).__doc__.strip().split("\n\n")[0]
    return " ".join(text.split())


def _code_line(code: ErrorCode, what: str) -> str:
    persistence = "may be in the log" if code in MAYBE_PERSISTED_CODES else "not in the log"
    if code in TAKEN_CODES:
        persistence = "in the log"
    return f"| {int(code)} `{code.name}` | {_deed(code)} | {persistence} | {what} |\n"


def _deed(code: ErrorCode) -> str:
    """Describe how `Delivery` treats a code."""
    if code in TAKEN_CODES:
        return "takes it for delivered, at offset −1"
    if code in FATAL_CODES:
        return "ends an idempotent producer"
    if code in SEQUENCE_CODES:
        return "begins a new epoch and sends again, unless an earlier attempt may be in the log"
    if code == ErrorCode.MESSAGE_TOO_LARGE:
        return "splits the batch and sends its halves; a single record fails"
    error = ERRORS[code]
    if error.retriable and error.refresh_metadata:
        return "asks who leads, and sends again"
    return "sends again" if error.retriable else "fails"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
