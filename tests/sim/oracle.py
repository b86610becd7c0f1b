"""Judges a run by the application's view and the brokers' stored bytes.

It decodes batches with the slow and literal decoder of `tests.oracle`, and asks nothing of kprod
but the outcome of each record. What a history and a log must have in common is `tests.checker`'s.

Source: I1 to I7 and I14 of the reliability page's invariants.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from crc32c import crc32c

from tests.checker import checks, history
from tests.checker.checks import Anomaly
from tests.checker.history import OFFSET_UNKNOWN, POSSIBLY_PERSISTED, Record, RecordResult
from tests.oracle import record_v2

NOT_PERSISTED = "NOT_PERSISTED"
_OVERTAKING = frozenset({"Purged", "ClosedError"})


class Outcome(NamedTuple):
    """How a record ended.

    Attributes:
        partition: −1 where it failed.
        offset: −1 where it failed, or where the broker did not say.
        error: Name of the class; empty for a delivered record.
        persistence: Persistence of the error.
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
        order: Its number among this producer's sends, from 0.
        topic: Topic of the record.
        partition: Partition that the application chose; −1 if kprod chose.
        partition_count: Partitions of the topic when `send` began.
        value: The value sent.
        deadline_ns: When it must be settled.
        is_alone: It was not sent in bulk, so it has a future of its own.
        observers: How many were asked to tell.
        told: Notifications of each observer, in order.
        settled_ns: When the first was told.
        told_by: The actor on which the first observer was told.
        invoked_ns: When `send` began.
        accepted_ns: When `send` returned.
    """

    name: bytes
    client: int
    caller: int
    order: int
    topic: str
    value: bytes
    deadline_ns: int = 0
    partition: int = -1
    partition_count: int = 0
    is_alone: bool = True
    observers: int = 0
    told: list[Outcome] = field(default_factory=list)
    settled_ns: int = -1
    invoked_ns: int = -1
    accepted_ns: int = -1
    told_by: int = -1
    final: Outcome | None = None


class Stored(NamedTuple):
    """One record of a log."""

    offset: int
    value: bytes
    producer_id: int
    epoch: int


LostPlace: TypeAlias = tuple[bytes, int, int]
"""A record's name, and the partition and offset of a copy."""


class Finding(NamedTuple):
    """A broken invariant."""

    invariant: str
    text: str


Logs = Mapping[tuple[str, int, int], Sequence[Stored]]
"""By topic, partition, and how often the topic had been made again."""

Places = Mapping[bytes, Sequence[tuple[str, int, int, int]]]
"""Where a record is: topic, partition, generation of the topic, offset."""


def read_logs(partitions: Mapping[int, Sequence[bytes]]) -> Mapping[int, Sequence[Stored]]:
    """Decode the logs of a topic.

    Args:
        partitions: Encoded batches in order of offset, by partition.

    Returns:
        Records by partition.
    """
    return {
        partition: [
            Stored(record.offset, record.value or b"", batch.producer_id, batch.producer_epoch)
            for encoded in found
            for batch in record_v2.decode_batches(encoded, checksum=crc32c)
            for record in batch.records
        ]
        for partition, found in partitions.items()
    }


@dataclass(frozen=True, slots=True)
class Promises:
    """The guarantees of a producer's settings."""

    is_idempotent: bool
    keeps_order: bool
    keeps_acknowledged: bool


def check(
    sent: Sequence[Sent],
    logs: Logs,
    promises: Mapping[int, Promises],
    slack_ns: int,
    unheard: AbstractSet[bytes] = frozenset(),
    lost: AbstractSet[LostPlace] = frozenset(),
) -> list[Finding]:
    """Return every broken invariant of the records.

    Args:
        sent: All accepted records, in order.
        logs: After the run has come to rest.
        promises: By number of the producer.
        slack_ns: How long after its deadline a record may be settled.
        unheard: Names of records of which the application cannot know whether they were accepted.
        lost: Copies of records that a crash was allowed to take from the logs.
    """
    findings: list[Finding] = []
    places = _places(logs)
    lost_names = {name for name, _, _ in lost}
    for record in sent:
        findings += _check_told(record, slack_ns)
        final = record.final
        # Without idempotence a log may have two copies, of which a crash takes one.
        is_lost = final is not None and (record.name, final.partition, final.offset) in lost
        is_gone = record.name in lost_names and record.name not in places
        if promises[record.client].keeps_acknowledged and not is_lost and not is_gone:
            findings += _check_acknowledged(record, logs, places)
    results = _results(sent, promises)
    for (topic, partition, generation), log in logs.items():
        where = f"{topic}-{partition}" + (f" ({generation + 1}.)" if generation else "")
        heard = [stored for stored in log if name_of(stored.value) not in unheard]
        for finding in _check_log(heard, results[topic], promises):
            if finding.anomaly is not Anomaly.MISPLACED:  # `_check_acknowledged` knows better
                findings.append(Finding(_INVARIANTS[finding.anomaly], f"{where}: {finding.text}"))
    return findings


_INVARIANTS = {
    Anomaly.PHANTOM: "I2",
    Anomaly.OFFSETS: "I2",
    Anomaly.DUPLICATE: "I3",
    Anomaly.UNORDERED: "I4",
    Anomaly.UNTRUE: "I5",
    Anomaly.STALE: "I16",
}


@dataclass(slots=True)
class _SentResult(RecordResult):
    """A result, and the producer whose record it is."""

    client: int = -1


def _results(
    sent: Sequence[Sent], promises: Mapping[int, Promises]
) -> Mapping[str, dict[Record, _SentResult]]:
    """Return what became of each record, by its topic and name."""
    callers: dict[tuple[int, int], int] = {}
    results: dict[str, dict[Record, _SentResult]] = defaultdict(dict)
    for record in sent:
        final = record.final
        result = results[record.topic][record.name] = _SentResult(
            caller=callers.setdefault((record.client, record.caller), len(callers)),
            order=record.order,
            invoked=record.invoked_ns,
            client=record.client,
        )
        if final is None:
            continue
        if final.error:
            is_absent = final.persistence == NOT_PERSISTED
            result.outcome = history.NOT_PERSISTED if is_absent else POSSIBLY_PERSISTED
            continue
        result.outcome, result.partition = max(final.offset, OFFSET_UNKNOWN), final.partition
        if record.settled_ns >= 0 and promises[record.client].keeps_acknowledged:
            result.settled = record.settled_ns
    return results


def _check_log(
    log: Sequence[Stored],
    results: Mapping[Record, _SentResult],
    promises: Mapping[int, Promises],
) -> Iterable[checks.Finding]:
    """I2 to I5, I16: look at one log, and at what each producer and each id has in it."""
    whole = [(stored.offset, name_of(stored.value)) for stored in log]
    clients: dict[int, list[tuple[int, Record]]] = defaultdict(list)
    ids: dict[tuple[int, int], list[tuple[int, Record]]] = defaultdict(list)
    for stored, (offset, name) in zip(log, whole, strict=True):
        client = results[name].client if name in results else -1
        clients[client].append((offset, name))
        # A late request of an id that was given up may still be appended behind newer records,
        # which the protocol cannot prevent (after the last epoch of an id).
        ids[client, stored.producer_id].append((offset, name))
    for client, part in clients.items():
        is_idempotent = client >= 0 and promises[client].is_idempotent
        yield from checks.check_log(part, results, is_idempotent=is_idempotent)
    for (client, _), part in ids.items():
        if client >= 0 and promises[client].keeps_order:
            yield from checks.check_order(part, results)
    yield from checks.check_real_time(whole, results)


def names_in(logs: Logs) -> AbstractSet[bytes]:
    """Return the names of the records in any log."""
    return {name_of(stored.value) for log in logs.values() for stored in log}


def _places(logs: Logs) -> Places:
    places: dict[bytes, list[tuple[str, int, int, int]]] = defaultdict(list)
    for (topic, partition, generation), log in logs.items():
        for stored in log:
            place = (topic, partition, generation, stored.offset)
            places[name_of(stored.value)].append(place)
    return places


def name_of(value: bytes) -> bytes:
    """Return the name at the beginning of a record's value."""
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


def _check_acknowledged(record: Sent, logs: Logs, places: Places) -> Iterable[Finding]:
    """I2: an acknowledged record is at its place, with its value."""
    name, final = record.name.decode(), record.final
    if final is None or final.error:
        return
    found = places.get(record.name, ())
    if final.offset < 0:  # a broker that had it already may not know where
        if not found:
            yield Finding("I2", f"{name} was acknowledged without an offset, and is in no log")
        return
    place = (final.partition, final.offset)
    there = [where for where in found if (where[1], where[3]) == place]
    if not there:
        yield Finding("I2", f"{name} was acknowledged at {place}; it is in {found}")
    for topic, partition, generation, offset in there:
        log = logs[topic, partition, generation]
        stored = log[offset - log[0].offset]
        if stored.value != record.value:
            yield Finding("I2", f"{name} has another value in the log: {stored.value[:40]!r}")


def check_callbacks(told: Sequence[Sent], promises: Mapping[int, Promises]) -> Iterable[Finding]:
    """I4: records of one partition are told in the order in which they were sent."""
    # Delivered or not; but a purged record, or one that ends with the producer, may overtake.
    last: dict[tuple[int, int, int, str, int], Sent] = {}
    for record in told:
        final = record.told[0]
        partition = record.partition if final.error else final.partition
        if partition < 0 or final.error in _OVERTAKING or not promises[record.client].keeps_order:
            continue
        # An event loop hears later than the sender's thread; each keeps the order.
        key = (record.client, record.caller, record.told_by, record.topic, partition)
        before = last.get(key)
        if before is not None and before.order > record.order:
            yield Finding("I4", f"{record.name!r} was told after {before.name!r}")
        last[key] = record
