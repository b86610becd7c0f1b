"""The operations of a consumer's application: one function for each kind."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kprod.errors import KprodError
from kprod.model import TopicPartition
from tests.sim.plan import Entry
from tests.sim.reader import GRACE_MS, Reader, Seen
from tests.sim.reader_errors import take_error
from tests.sim.reader_plan import STREAM
from tests.sim.scheduler import MS

if TYPE_CHECKING:
    from tests.sim.world import World


def _wait_s(reader: Reader, entry: Entry) -> float:
    return entry["wait_ms"] / 1_000 if reader.is_threaded else 0.0


def _guarded(world: "World", reader: Reader, entry: Entry, call: Callable[[], Any]) -> Any:
    """Make a call of at most `wait_ms`, and continue after its error; None if it raised."""
    began_ns = world.scheduler.now_ns
    try:
        return call()
    except KprodError as error:
        take_error(world, reader, error)
        return None
    finally:
        took_ms = (world.scheduler.now_ns - began_ns) / MS
        if took_ms > entry["wait_ms"] + GRACE_MS and not reader.is_over:
            limit = f"{entry['kind']} of at most {entry['wait_ms']} ms"
            world.find("R12", f"{limit} took {took_ms:.1f} ms")


def poll(world: "World", reader: Reader, entry: Entry) -> None:
    """Take records in one call."""
    reader.inside += 1
    try:
        records = _guarded(
            world,
            reader,
            entry,
            lambda: reader.consumer.poll(_wait_s(reader, entry), entry["count"]),
        )
        for record in records or ():
            reader.hand(record)
        if records is not None and len(records) > entry["count"]:
            world.find("R12", f"poll returned {len(records)} records, not {entry['count']}")
    finally:
        reader.inside -= 1


def iterate(world: "World", reader: Reader, entry: Entry) -> None:
    """Take records one by one, and leave the loop in its middle."""
    reader.inside += 1
    try:
        _guarded(
            world,
            reader,
            entry | {"wait_ms": 200 + 100 * entry["count"]},
            lambda: _loop(world, reader, entry),
        )
    finally:
        reader.inside -= 1


def _loop(world: "World", reader: Reader, entry: Entry) -> None:
    left = entry["count"]
    for record in reader.consumer:
        reader.hand(record)
        left -= 1
        place = TopicPartition(record.topic, record.partition)
        if left == entry["choice"] % 7 and place in reader.assigned():
            ask_position(world, reader, place)
        if left == entry["choice"] % 11 and entry["choice"] & 64:
            world.count("reader: pause in a loop")
            reader.consumer.pause(place)
            reader.paused.add(place)
        if left <= 0:
            break


def poll_arrow(world: "World", reader: Reader, entry: Entry) -> None:
    """Take records as columns."""
    if reader.settings["deserializer"]:
        poll(world, reader, entry)
        return
    reader.inside += 1
    try:
        batch = _guarded(
            world,
            reader,
            entry,
            lambda: reader.consumer.poll_arrow(
                _wait_s(reader, entry),
                entry["count"],
                max_bytes=(1, 500, 1 << 20)[entry["choice"] % 3],
            ),
        )
        if batch is not None and batch.num_rows:
            world.count("reader: columns")
            for row in batch.to_pylist():
                reader.hand(_Row(row))
    finally:
        reader.inside -= 1


class _Row:
    """A row of a table, with the fields of a record."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        self.topic, self.partition, self.offset = row["topic"], row["partition"], row["offset"]
        self.key, self.value = row["key"], row["value"]
        self.headers = [(it["key"], it["value"]) for it in row["headers"] or ()]
        self.timestamp_ms = round(row["timestamp"].timestamp() * 1_000)


def _chosen(places: Iterable[TopicPartition], choice: int) -> list[TopicPartition]:
    listed = list(places)
    return [place for at, place in enumerate(listed) if choice >> (at % 12) & 1] or listed[:1]


def seek(world: "World", reader: Reader, entry: Entry) -> None:
    """Continue at another offset, a few of which are in no log."""
    choice = entry["choice"]
    for place in _chosen(reader.assigned(), choice)[:2]:
        start, end = reader.ends(place)
        offset = max(0, start - 2 + (choice >> 3) % (end - start + 5))
        is_in = start <= offset <= end
        world.count("reader: seek" if is_in else "reader: seek beyond the log")
        if not is_in and reader.policy != "none":  # a start of its own, where the policy says
            reader.begin(place, reader.policy, beside=entry["other"])
            reader.note(Seen("start", place, offset, beside=True))
        else:
            reader.note(Seen("start", place, offset, beside=entry["other"]))
        _guarded(
            world,
            reader,
            entry,
            partial(
                reader.consumer.seek,
                place,
                offset,
                reader.epoch_before(place, offset) if choice & 128 else None,
            ),
        )


def seek_to_beginning(world: "World", reader: Reader, entry: Entry) -> None:
    """Continue at the start of the log."""
    for place in _chosen(reader.assigned(), entry["choice"])[:2]:
        reader.begin(place, "earliest", beside=entry["other"])
        _guarded(world, reader, entry, partial(reader.consumer.seek_to_beginning, place))


def seek_to_end(world: "World", reader: Reader, entry: Entry) -> None:
    """Read only new records."""
    for place in _chosen(reader.assigned(), entry["choice"])[:1]:
        reader.begin(place, "latest", beside=entry["other"])
        _guarded(world, reader, entry, partial(reader.consumer.seek_to_end, place))


def assign(world: "World", reader: Reader, entry: Entry) -> None:
    """Read other partitions; those that remain continue."""
    places = _chosen(reader.places(), entry["choice"])
    before = set(reader.assigned())
    added = [place for place in places if place not in before]
    starts = _starts(reader, added)
    _reassign(world, reader, entry, starts, lambda: reader.consumer.assign(places))
    _note_dropped(reader, before)


def subscribe(world: "World", reader: Reader, entry: Entry) -> None:
    """Read whole topics."""
    topics = [*sorted(world.topics.counts), *([STREAM] if reader.settings.get("stream") else [])]
    before, version = set(reader.assigned()), reader.parts.assignment.version
    kept = before if reader.parts.assignment.topics else set()
    added = [place for place in reader.places() if place not in kept]
    starts = [*_starts(reader, added), *_late_starts(world, reader, added)]
    _reassign(world, reader, entry, starts, lambda: reader.consumer.subscribe(topics))
    if reader.parts.assignment.version != version:
        # Partitions of another assignment that their topics do not have now.
        for place in sorted(before - kept - set(added)):
            reader.paused.discard(place)
            reader.note(Seen("drop", place, -1))


def _starts(reader: Reader, added: Iterable[TopicPartition]) -> list[Seen]:
    return [reader.beginning(place, reader.policy) for place in added]


def _late_starts(world: "World", reader: Reader, added: Iterable[TopicPartition]) -> Iterator[Seen]:
    """Yield the starts of partitions that the consumer may notice only after its subscription.

    Its metadata may be older than a partition that was added to the topic. Then the partition
    appears later, and is read from its beginning, as `docs/reading.md` says.
    """
    if reader.policy != "latest":
        return
    for place in added:
        fewest = world.topics.fewest.get(place.topic)  # None for the stream, which does not grow
        if fewest is not None and place.partition >= fewest:
            yield reader.beginning(place, "earliest")._replace(beside=True)


def _reassign(
    world: "World",
    reader: Reader,
    entry: Entry,
    starts: Iterable[Seen],
    call: Callable[[], object],
) -> None:
    version = reader.parts.assignment.version
    reader.inside += 1
    try:
        _guarded(world, reader, entry, call)
    finally:
        reader.inside -= 1
    if reader.parts.assignment.version != version:  # else it was rejected
        for start in starts:
            reader.paused.discard(start.place)
            reader.note(start)


def _note_dropped(reader: Reader, before: set[TopicPartition]) -> None:
    for place in sorted(before - set(reader.assigned())):
        reader.paused.discard(place)
        reader.note(Seen("drop", place, -1))


def pause(world: "World", reader: Reader, entry: Entry) -> None:
    """Read no records of some partitions for a while."""
    places = _chosen(reader.assigned(), entry["choice"])
    _guarded(world, reader, entry, lambda: reader.consumer.pause(*places))
    world.count("reader: pause")
    if any(block.partition.key in places for block in _ready_blocks(reader)):
        world.count("prefetched records of a paused partition are kept")
    if not entry["other"]:
        reader.paused |= set(places) & set(reader.assigned())


def _ready_blocks(reader: Reader) -> list[Any]:
    return [*reader.parts.hand_over._ready, *reader.parts.buffer._arrived]


def resume(world: "World", reader: Reader, entry: Entry) -> None:
    """Read them again."""
    places = _chosen(reader.assigned(), entry["choice"])
    reader.paused -= set(places)
    _guarded(world, reader, entry, lambda: reader.consumer.resume(*places))


def position(world: "World", reader: Reader, entry: Entry) -> None:
    """Ask where reading continues."""
    for place in _chosen(reader.assigned(), entry["choice"])[:2]:
        _guarded(
            world,
            reader,
            entry,
            partial(ask_position, world, reader, place, _wait_s(reader, entry)),
        )


def ask_position(world: "World", reader: Reader, place: TopicPartition, wait_s: float = 0) -> None:
    """Ask for one position, and keep it for the judge."""
    known = len(reader.seen)
    found = reader.consumer.position(place, wait_s)
    world.count("reader: position")
    if known == len(reader.seen):  # nothing else has happened while it waited
        reader.note(Seen("position", place, found))


def offsets_for_times(world: "World", reader: Reader, entry: Entry) -> None:
    """Look a time up, and compare the result with the log."""
    place = reader.places()[entry["choice"] % len(reader.places())]
    time_ms = world.scheduler.clock.timestamp_ms() - entry["choice"] % 3_000
    before = world.readers.look_at(place)
    found = _guarded(
        world,
        reader,
        entry,
        lambda: reader.consumer.offsets_for_times({place: time_ms}, _wait_s(reader, entry)),
    )
    after = world.readers.look_at(place)
    if not found or before is not after or before.version or "wall_clock" in world.book:
        return
    world.count("reader: offset for a time")
    at = found[place]
    if at is not None and at.timestamp_ms < time_ms:
        world.find("R12", f"{place} has {at} at or after {time_ms}")


def ends(world: "World", reader: Reader, entry: Entry) -> None:
    """Ask for both ends of a log, and compare them with what they were meanwhile."""
    places = reader.places()
    place = places[entry["choice"] % len(places)]
    before, history = reader.ends(place), world.readers.look_at(place)
    version = history.version
    wait_s = _wait_s(reader, entry)
    ask = reader.consumer.end_offsets if entry["choice"] & 64 else reader.consumer.beginning_offsets
    found = _guarded(world, reader, entry, lambda: ask([place], wait_s))
    after = reader.ends(place)
    if not found or world.readers.look_at(place) is not history or history.version != version:
        return
    world.count("reader: ends of a log")
    at = 1 if entry["choice"] & 64 else 0
    if not before[at] <= found[place] <= after[at]:
        text = f"{place}: {'start, end'.split(', ')[at]} {found[place]}"
        world.find("R12", f"{text}, which was {before[at]} to {after[at]}")


def partitions_for(world: "World", reader: Reader, entry: Entry) -> None:
    """Ask for a topic's partitions."""
    topic = sorted(world.topics.counts)[entry["choice"] % len(world.topics.counts)]
    _guarded(
        world,
        reader,
        entry,
        lambda: reader.consumer.partitions_for(topic, _wait_s(reader, entry)),
    )


def lag(world: "World", reader: Reader, entry: Entry) -> None:
    """Ask how far behind reading is."""
    for place in reader.assigned():
        found = _guarded(world, reader, entry, partial(reader.consumer.lag, place))
        if found is not None and found < 0:
            world.find("R3", f"{place} has a lag of {found}")


def metrics(world: "World", reader: Reader, entry: Entry) -> None:
    """Ask for the metrics, and for the text of the consumer."""
    _guarded(world, reader, entry, reader.consumer.metrics)
    repr(reader.consumer)


def wakeup(world: "World", reader: Reader, entry: Entry) -> None:  # noqa: ARG001
    """End the present or the next poll."""
    reader.wakes += 1
    reader.consumer.wakeup()


def close(world: "World", reader: Reader, entry: Entry) -> None:
    """Close the consumer; another takes its place."""
    if not reader.is_over:
        world.count("reader was closed in the middle")
        world.readers.replace(reader, _wait_s(reader, entry))


READINGS: Mapping[str, Callable[["World", Reader, Entry], None]] = {
    "poll": poll,
    "iterate": iterate,
    "poll_arrow": poll_arrow,
    "seek": seek,
    "seek_to_beginning": seek_to_beginning,
    "seek_to_end": seek_to_end,
    "assign": assign,
    "subscribe": subscribe,
    "pause": pause,
    "resume": resume,
    "position": position,
    "offsets_for_times": offsets_for_times,
    "ends": ends,
    "partitions_for": partitions_for,
    "lag": lag,
    "metrics": metrics,
    "wakeup": wakeup,
    "close": close,
}
"""Every kind of operation by its name in a plan."""
BESIDE = frozenset(
    {"seek", "seek_to_beginning", "seek_to_end", "pause", "resume", "wakeup", "close"}
) | {"position", "offsets_for_times", "ends", "partitions_for", "lag", "metrics", "poll"}
"""Those that another thread may do meanwhile."""
