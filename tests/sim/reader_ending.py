"""How reading ends: after the faults everything is read, then the consumer is closed.

Source: R4 and R9 of the invariants of reading.
"""

from typing import TYPE_CHECKING

from kprod.errors import KprodError
from kprod.model import TopicPartition
from tests.sim.plan import Entry
from tests.sim.reader import Reader, Seen
from tests.sim.reader_errors import take_error
from tests.sim.reader_workload import poll
from tests.sim.scheduler import MS

if TYPE_CHECKING:
    from tests.sim.world import World

_PACE_MS = 20
_SLACK_MS = 4_000
_POLL: Entry = {"kind": "poll", "count": 500, "wait_ms": 200, "choice": 0, "other": False}


class Drain:
    """Reads all that is left, and closes the consumer.

    Args:
        world: Its faults have ended.
        reader: The consumer that is open.
    """

    def __init__(self, world: "World", reader: Reader) -> None:
        self._world = world
        self._reader = reader
        config = reader.parts.config
        self._limit_ms: int = 2 * config.request_timeout_ms + config.fetch_max_wait_ms + _SLACK_MS
        if world.dead >= 0:
            self._limit_ms *= 3
        self._end_ns = self._new_end_ns()
        self._is_resumed = False

    def run(self) -> None:
        """Read in the calling thread."""
        scheduler = self._world.scheduler
        while not self._step():
            if scheduler.current is not None:  # another thread may still be in a call
                scheduler.current.sleep(scheduler.now_ns + MS)
        self._reader.end(5.0)

    def step(self) -> None:
        """Read without waiting, and again later until all is read."""
        if self._step():
            self._reader.end(0)
        else:
            self._world.scheduler.after(_PACE_MS * MS, self.step)

    def _step(self) -> bool:
        """Poll once; return whether reading is over."""
        world, reader = self._world, self._reader
        if reader.is_over:
            return True
        if not self._is_resumed:
            self._is_resumed = True
            reader.consumer.resume(*reader.assigned())
            reader.paused.clear()
        known = len(reader.seen)
        poll(world, reader, _POLL)
        if len(reader.seen) > known:
            self._end_ns = self._new_end_ns()
        left = [place for place in reader.assigned() if not self._is_read(place)]
        if not left:
            for place in reader.assigned():
                self._note_position(place)
            world.count("reader has read everything")
            return True
        if world.scheduler.now_ns < self._end_ns:
            return False
        for place in left[:3]:
            found = reader.parts.assignment.partitions[place]
            text = f"reader-{reader.number} does not reach {reader.ends(place)} of {place}"
            world.find("R4", f"{text}: {found}, number {found.number} of {found.start}")
        return True

    def _new_end_ns(self) -> int:
        """Return when there must have been progress, or all be read."""
        world = self._world
        begin_ns: int = max(world.scheduler.now_ns, world.throttled_until_ns)
        return begin_ns + self._limit_ms * MS

    def _is_read(self, place: TopicPartition) -> bool:
        world, reader = self._world, self._reader
        partition = world.cluster._kprod.engine.state.topics.partition(*place)
        if partition is None or partition.leader_id in {world.dead, -1}:
            return True
        known = reader.parts.hand_over.place_of(reader.parts.assignment.partitions[place])
        return known is not None and known.offset >= reader.ends(place)[1]

    def _note_position(self, place: TopicPartition) -> None:
        try:
            found = self._reader.consumer.position(place, 0)
        except KprodError as error:
            take_error(self._world, self._reader, error)
        else:
            self._reader.note(Seen("position", place, found))


def look_at_what_is_left(world: "World") -> None:
    """R9: a closed consumer keeps nothing."""
    for reader in world.readers.all:
        if not reader.has_ended or not reader.parts.thread.has_ended:
            world.find("R9", f"reader-{reader.number} does not close")
            continue
        reader.consumer.close(0)  # once more: a poll may have been in progress
        buffer = reader.parts.buffer
        buffer.take_freed()
        if buffer.held_bytes:
            world.find("R9", f"reader-{reader.number} keeps {buffer.held_bytes} bytes")
        links = [
            link.number
            for link in world.network.links
            if link.client == reader.number and not link.transport.is_closed
        ]
        if links:
            world.find("R9", f"reader-{reader.number} keeps the links {links} after close")
