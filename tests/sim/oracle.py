"""What must hold after a run, judged from the application's view and the brokers' stored bytes.

It decodes batches with the slow and literal decoder of `tests.oracle`, and asks nothing of kprod
but the outcome of each record.

Source: I1 to I7 and I14 of the reliability page's invariants.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.oracle import record_v2

NOT_PERSISTED = "NOT_PERSISTED"


class Outcome(NamedTuple):
    """How a record ended.

    Attributes:
        partition: −1 where it failed.
        offset: −1 where it failed, or where the broker did not say.
        error: Name of the class; empty for a delivered record.
        persistence: Of the error.
    """

    partition: int
    offset: int
    error: str = ""
    persistence: str = ""


@dataclass(slots=True)
class Sent:
    """One accepted record.

    Attributes:
        name: Unique in the run; begins the record's value.
        client: Number of the producer that took it.
        caller: The thread that sent it.
        order: Of this producer's sends, from 0.
        topic: Where it goes.
        value: What was sent.
        deadline_ns: When it must be settled.
        is_alone: It was not sent in bulk, so it has a future of its own.
        observers: How many were asked to tell.
        told: What each observer was told, in order.
        settled_ns: When the first was told.
    """

    name: bytes
    client: int
    caller: int
    order: int
    topic: str
    value: bytes
    deadline_ns: int = 0
    is_alone: bool = True
    observers: int = 0
    told: list[Outcome] = field(default_factory=list)
    settled_ns: int = -1
    final: Outcome | None = None


class Stored(NamedTuple):
    """One record of a log."""

    offset: int
    value: bytes
    producer_id: int
    epoch: int


class Finding(NamedTuple):
    """A broken invariant."""

    invariant: str
    text: str


Logs = Mapping[tuple[str, int], Sequence[Stored]]


def read_logs(batches: Mapping[str, Mapping[int, Sequence[bytes]]]) -> Logs:
    """Decode the logs of all partitions.

    Args:
        batches: Encoded batches in order of offset, by topic and partition.

    Returns:
        Records by topic and partition.
    """
    return {
        (topic, partition): [
            Stored(record.offset, record.value or b"", batch.producer_id, batch.producer_epoch)
            for encoded in found
            for batch in record_v2.decode_batches(encoded)
            for record in batch.records
        ]
        for topic, partitions in batches.items()
        for partition, found in partitions.items()
    }


@dataclass(frozen=True, slots=True)
class Promises:
    """What a producer's settings promise."""

    is_idempotent: bool
    keeps_order: bool
    keeps_acknowledged: bool


def check(
    sent: Sequence[Sent], logs: Logs, promises: Mapping[int, Promises], slack_ns: int
) -> list[Finding]:
    """Return every broken invariant of the records.

    Args:
        sent: All accepted records, in order.
        logs: After the run has come to rest.
        promises: By number of the producer.
        slack_ns: How long after its deadline a record may be settled.
    """
    findings: list[Finding] = []
    places = _places(logs)
    for record in sent:
        findings += _check_told(record, slack_ns)
        findings += _check_stored(record, logs, places, promises[record.client])
    findings += _check_order(sent, logs, promises)
    findings += _check_unknown(sent, places)
    return findings


def _places(logs: Logs) -> dict[bytes, list[tuple[str, int, int]]]:
    places: dict[bytes, list[tuple[str, int, int]]] = defaultdict(list)
    for (topic, partition), log in logs.items():
        for stored in log:
            places[_name_of(stored.value)].append((topic, partition, stored.offset))
    return places


def _name_of(value: bytes) -> bytes:
    return value.partition(b"|")[0]


def _check_told(record: Sent, slack_ns: int) -> Iterable[Finding]:
    """I1: each observer is told once, all the same; I7: in time."""
    name = record.name.decode()
    if record.final is None:
        yield Finding("I1", f"{name} is not settled")
        return
    if len(record.told) != record.observers:
        yield Finding("I1", f"{name}: {record.observers} observers, told {record.told}")
    if any(outcome != record.final for outcome in record.told):
        yield Finding("I1", f"{name} ended {record.final}, observers were told {record.told}")
    if record.settled_ns > record.deadline_ns + slack_ns:
        late_ms = (record.settled_ns - record.deadline_ns) / 1e6
        yield Finding("I7", f"{name} was settled {late_ms:.1f} ms after its deadline")


def _check_stored(
    record: Sent,
    logs: Logs,
    places: Mapping[bytes, Sequence[tuple[str, int, int]]],
    promises: Promises,
) -> Iterable[Finding]:
    """I2: acknowledged and there; I3: not twice; I5: what is NOT_PERSISTED is not there."""
    name, final = record.name.decode(), record.final
    found = places.get(record.name, ())
    if any(topic != record.topic for topic, _, _ in found):
        yield Finding("I2", f"{name} of {record.topic} is in {found}")
    if promises.is_idempotent and len(found) > 1:
        yield Finding("I3", f"{name} is in the log {len(found)} times: {found}")
    if final is None:
        return
    if final.persistence == NOT_PERSISTED and found:
        yield Finding("I5", f"{name} ended {final} and is in the log: {found}")
    if final.error or final.offset < 0 or not promises.keeps_acknowledged:
        return
    place = (record.topic, final.partition, final.offset)
    if place not in found:
        yield Finding("I2", f"{name} was acknowledged at {place}; it is in {found}")
    else:
        log = logs[record.topic, final.partition]
        stored = log[final.offset - log[0].offset]
        if stored.value != record.value:
            yield Finding("I2", f"{name} has another value in the log: {stored.value[:40]!r}")


def _check_order(
    sent: Sequence[Sent], logs: Logs, promises: Mapping[int, Promises]
) -> Iterable[Finding]:
    """I4: a log has each producer's records in the order of sending."""
    known = {record.name: record for record in sent}
    for (topic, partition), log in logs.items():
        last: dict[tuple[int, int], Sent] = {}
        for stored in log:
            record = known.get(_name_of(stored.value))
            if record is None or not promises[record.client].keeps_order:
                continue
            before = last.get((record.client, record.caller))
            if before is not None and before.order > record.order:
                where = f"{topic}-{partition} at {stored.offset}"
                yield Finding("I4", f"{record.name!r} is behind {before.name!r} in {where}")
            last[record.client, record.caller] = record


def _check_unknown(
    sent: Sequence[Sent], places: Mapping[bytes, Sequence[tuple[str, int, int]]]
) -> Iterable[Finding]:
    """A log has only what was accepted."""
    known = {record.name for record in sent}
    for name, found in places.items():
        if name not in known and not name.startswith(b"probe"):
            yield Finding("I2", f"{name!r} is in the log at {found} and was never accepted")


def check_callbacks(told: Sequence[Sent], promises: Mapping[int, Promises]) -> Iterable[Finding]:
    """I4: records of one partition are told in the order in which they were sent."""
    last: dict[tuple[int, int, str, int], Sent] = {}
    for record in told:
        final = record.told[0]
        if final.error or not promises[record.client].keeps_order:
            continue
        key = (record.client, record.caller, record.topic, final.partition)
        before = last.get(key)
        if before is not None and before.order > record.order:
            yield Finding("I4", f"{record.name!r} was told after {before.name!r}")
        last[key] = record
