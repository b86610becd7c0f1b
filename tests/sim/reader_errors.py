"""How a consumer's application takes errors: it checks what they say, and continues.

It skips a bad record, seeks after a corrupt batch, and begins again where there is no offset.

Source: R6 of the invariants of reading.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import starmap
from typing import TYPE_CHECKING, Any

from kprod import errors
from kprod.errors import KprodError
from kprod.model import TopicPartition
from tests.sim.reader import Reader, Seen

if TYPE_CHECKING:
    from tests.sim.world import World

_TWO = 2
_NAMED_MAX = 10
"""Partitions that a text names at least, if there are as many."""
_TOPICS_CHANGE = frozenset(
    {"remake_topic", "reject_then_lose", "stale_metadata", "forget_topic", "error_metadata"}
)
CAUSES: Mapping[str, frozenset[str]] = {
    "UnknownTopic": _TOPICS_CHANGE | {"fetch_error", "offsets_error"},
    "UnknownPartition": _TOPICS_CHANGE | {"grow_topic"},
    "CorruptRecord": frozenset({"corrupt"}),
    "LogTruncated": frozenset({"stream_cut", "crash", "restart", *_TOPICS_CHANGE}),
}
"""The faults that must precede an error of a consumer, by the error's name."""


def take_error(world: "World", reader: Reader, error: KprodError) -> None:
    """R6: an error has a cause, and names its place; then continue behind it."""
    name = type(error).__name__
    world.count(f"reader raised {name}")
    causes = CAUSES.get(name)
    if causes is not None and not causes & world.book.keys():
        world.find("R6", f"{error!r} has no cause: {sorted(world.book)}")
    if (take := _TAKERS.get(name)) is not None:
        take(world, reader, error)


def _take_no_offset(world: "World", reader: Reader, error: Any) -> None:
    _check_named(world, error, error.partitions)
    world.count("reader: no offset")
    for place in starmap(TopicPartition, error.partitions):
        _begin_again(reader, place)


def _take_truncated(world: "World", reader: Reader, error: Any) -> None:
    place = TopicPartition(error.topic, error.partition)
    if f"{place.topic}, partition {place.partition}," not in str(error):
        world.find("R6", f"no partition is named by {error!r}")
    _begin_again(reader, place)


def _take_wakeup(world: "World", reader: Reader, _: Any) -> None:
    reader.wakes -= 1
    if reader.wakes < 0:
        world.find("R6", "a poll was woken up, and nobody did it")


def _take_concurrent(world: "World", reader: Reader, error: Any) -> None:
    if reader.inside < _TWO:
        world.find("R6", f"nobody else is reading: {error!r}")


def _take_closed(world: "World", reader: Reader, error: Any) -> None:
    if not reader.is_over:
        world.find("R6", f"it is not closed: {error!r}")


def _take_plain(world: "World", reader: Reader, error: KprodError) -> None:
    text = str(error)
    if "nothing to read" in text and reader.parts.assignment.is_empty:
        return
    if "is not assigned" in text:
        return  # another thread has assigned others
    world.find("R6", f"nobody knows {error!r}")


def _check_named(world: "World", error: KprodError, places: Iterable[tuple[str, int]]) -> None:
    shown = [f"{topic}-{partition}" in str(error) for topic, partition in places]
    if not shown or shown.count(True) < min(len(shown), _NAMED_MAX):
        world.find("R6", f"no partition is named by {error!r}")


def _take_bad(world: "World", reader: Reader, error: errors.DeserializationFailed) -> None:
    record: Any = error.record
    if record is None or f"offset {record.offset}" not in str(error):
        world.find("R6", f"no record is named by {error!r}")
        return
    reader.hand(record, "peek")
    if record.offset % 2 == 0:
        world.count("reader: skip")
        place = TopicPartition(record.topic, record.partition)
        try:
            reader.consumer.skip(record)
        except KprodError as other:
            take_error(world, reader, other)
        else:
            reader.note(Seen("start", place, record.offset + 1))


def _take_corrupt(world: "World", reader: Reader, error: errors.CorruptRecord) -> None:
    if error.topic is None or error.partition < 0 or f"offset {error.offset}" not in str(error):
        world.find("R6", f"no place is named by {error!r}")
        return
    place = TopicPartition(error.topic, error.partition)
    try:
        found = reader.consumer.position(place, 0)
        reader.note(Seen("position", place, found))
        reader.note(Seen("start", place, found))
        reader.consumer.seek(place, found)
    except KprodError as other:
        world.count(f"reader: seek after a corrupt batch raised {type(other).__name__}")


def _begin_again(reader: Reader, place: TopicPartition) -> None:
    if place in reader.parts.assignment.partitions and not reader.is_over:
        reader.begin(place, "earliest")
        reader.consumer.seek_to_beginning(place)


_TAKERS: Mapping[str, Callable[["World", Reader, Any], None]] = {
    "DeserializationFailed": _take_bad,
    "CorruptRecord": _take_corrupt,
    "NoOffset": _take_no_offset,
    "LogTruncated": _take_truncated,
    "WakeupError": _take_wakeup,
    "ConcurrentPoll": _take_concurrent,
    "ClosedError": _take_closed,
    "KprodError": _take_plain,
}
"""The application's reaction to an error, by the error's name."""
