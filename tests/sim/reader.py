"""One consumer of a run: its I/O thread as an actor, and all that its application has seen.

Where the producers have threads, the consumer has its own, and the application's calls wait; else
the application acts while the consumer sleeps, without waiting.
"""

import random
import zlib
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import kprod
from kprod.consumer.consumer_wiring import ConsumerEnvironment
from kprod.errors import ClosedError
from kprod.metrics.state_log import Event
from kprod.model import TopicPartition
from kprod.network.connection_context import NetworkIO
from tests.sim.client_io import Shortage, SimResolver, SimSelector, SimSocketWait
from tests.sim.draw import Draw
from tests.sim.reader_plan import STREAM
from tests.sim.reader_tap import ReaderTap
from tests.sim.scheduler import MS, Actor, LivelockError

if TYPE_CHECKING:
    from tests.sim.world import World

FIRST_NUMBER = 1_000
"""Number of a run's first consumer among its clients."""
OWN_SETTINGS = frozenset({"begin", "stream", "deserializer", "interceptor"})
"""A plan's parameters of a consumer besides its settings."""
GRACE_MS = 500
CLOSE_GRACE_MS = 300
_BAD_SHARE = 9
"""One value in this many is one that the deserializer fails on."""


class Seen(NamedTuple):
    """One thing that the application did or saw.

    Attributes:
        kind: "record", "peek" (a deserializer failed on it), "start" (an offset from which reading
            continues), "told" (the same, by the consumer), "position", "none" (there is no
            offset), "drop" (it is not read any more).
        place: Topic and partition.
        offset: The record's, or the next one's; −1 for one that the application does not know.
        lowest: For a start without an offset: the lowest one that it can be.
        beside: Another thread did it, so a call in progress may not know it yet.
        row: Key, value, headers, timestamp of a record.
        generation: How often the topic had been made again.
        version: How often its log had been cut.
    """

    kind: str
    place: TopicPartition
    offset: int
    lowest: int = 0
    beside: bool = False
    row: tuple[Any, ...] = ()
    generation: int = 0
    version: int = 0


class BadValueError(ValueError):
    """The error of the application's deserializer."""


class Reader:
    """One consumer.

    Args:
        world: World of the run.
        number: Its number among all clients of the run.

    Attributes:
        consumer: Under test.
        seen: The actions and observations of its application, in order.
        paused: Partitions that the reading thread has paused.
        inside: Calls in progress that only one thread may make.
        wakes: Calls of `wakeup` that have not ended a poll.
        is_over: It was closed.
        has_ended: `close` has returned.
    """

    def __init__(self, world: "World", number: int) -> None:
        self.number = number
        self.settings = settings = world.plan.reader
        self.is_threaded = world.plan.mode != "engine"
        self.seen: list[Seen] = []
        self.paused: set[TopicPartition] = set()
        self.inside = 0
        self.wakes = 0
        self.is_over = False
        self.has_ended = False
        self.reads_committed = settings["isolation_level"] == "read_committed"
        self.policy = settings["auto_offset_reset"].partition(":")[0]
        self._failures: Counter[bytes] = Counter()
        self._world = world
        scheduler = world.scheduler
        self.shortage = Shortage()
        self.selector = SimSelector(
            scheduler,
            Draw(world.plan.seed, f"ready/{number}"),
            self.shortage,
            can_pause=self.is_threaded,
        )
        self.resolver = SimResolver(scheduler, self.selector.wakeup)
        io = NetworkIO(
            selector=self.selector,
            resolver=self.resolver,
            connect=partial(world.network.connect, number, self.shortage),
            make_socket_wait=partial(SimSocketWait, scheduler),
        )
        own = {name: settings[name] for name in settings.keys() - OWN_SETTINGS}
        if settings["deserializer"]:
            own["value_deserializer"] = self._deserialize
        if settings["interceptor"]:
            own["interceptors"] = [Interceptor(world, self, settings["interceptor"])]
        world.taps[number] = self.tap = ReaderTap(
            world.find,
            None,
            lambda: scheduler.now_ns,
            world.count,
            lambda: self.parts.buffer.held_bytes,
            lambda: self.selector.is_asleep,
        )
        self.consumer = kprod.Consumer(
            settings={
                "bootstrap_servers": world.bootstrap_servers,
                "client_id": f"reader-{number}",
                "consumer_timeout_ms": 100 if self.is_threaded else 0,
                **own,
            },
            environment=ConsumerEnvironment(
                admits_interpreted=True,
                clock=scheduler.clock,
                rng=random.Random(f"{world.plan.seed}/jitter/{number}"),
                io=lambda _: io,
                is_threaded=self.is_threaded,
                on_note=self._note,
            ),
        )
        self.tap._config = self.parts.config
        if not self.is_threaded:
            self._actor = Actor(scheduler, self._run)

    @property
    def parts(self) -> Any:
        """The consumer's parts."""
        engine: Any = self.consumer._kprod
        return engine.parts

    def _note(self, event: Event, fields: Mapping[str, object]) -> None:
        self._world.count(f"reader: {event.text}")
        if event is Event.DISCONNECTED and not isinstance(fields["reason"], ClosedError):
            self._world.count("reader gave up a connection")

    def _run(self) -> None:
        parts = self.parts
        try:
            while not self.is_over:
                parts.loop.run_once(self._world.scheduler.clock.now_ms())
        except Exception as error:  # noqa: BLE001 - a thread that ends by itself is a finding
            invariant = "I12" if isinstance(error, LivelockError) else "R6"
            self._world.find(invariant, f"the loop of reader-{self.number} died: {error!r}")
        self.consumer.close(0)
        self.has_ended = True

    def end(self, timeout_s: float) -> None:
        """Close the consumer: in the calling thread, or between two turns of its loop."""
        if not self.is_threaded:
            self.is_over = True
            self.selector.wakeup()
            return
        self.is_over = True
        began_ns = self._world.scheduler.now_ns
        self.consumer.close(timeout_s)
        self.has_ended = True
        took_ms = (self._world.scheduler.now_ns - began_ns) / MS
        if took_ms > timeout_s * 1_000 + CLOSE_GRACE_MS + GRACE_MS:
            self._world.find("R9", f"close({timeout_s}) took {took_ms:.1f} ms")

    def freeze(self, duration_ms: int) -> None:
        """Let the I/O thread not run for a while."""
        sleeper = self.selector.sleeper
        if sleeper is not None and self.selector.is_asleep:
            until_ns = self._world.scheduler.now_ns + duration_ms * MS
            sleeper.frozen_until_ns = max(sleeper.frozen_until_ns, until_ns)
            self._world.count("reader was frozen")

    def note(self, seen: Seen) -> None:
        """Add what the application did or saw; a closed consumer rejects a new start."""
        if seen.kind == "start" and self.parts.closed_error is not None:
            return
        book = self._world.readers.book
        generation, version = book.generations[seen.place.topic], book.now(seen.place).version
        self.seen.append(seen._replace(generation=generation, version=version))
        text = f"{seen.kind} {seen.place.topic}-{seen.place.partition} {seen.offset}"
        self._world.note(b"reader%d" % self.number, text.encode())

    def hand(self, record: Any, kind: str = "record") -> None:
        """Note a record that was handed out, or that could not be deserialized."""
        place = TopicPartition(record.topic, record.partition)
        value = bytes(record.value or b"")
        headers = tuple((it[0], it[1]) for it in record.headers)
        key = None if record.key is None else bytes(record.key)
        row = (key, value, headers, record.timestamp_ms)
        self.note(Seen(kind, place, record.offset, row=row))
        self._world.count("reader: record" if kind == "record" else "reader: bad record")
        if kind == "record" and place in self.paused:
            text = f"{place.topic}-{place.partition} {record.offset} was handed out in a pause"
            self._world.find("R11", text)

    def begin(self, place: TopicPartition, policy: str, *, beside: bool = False) -> None:
        """Note that a partition's reading begins where a policy says."""
        self.note(self.beginning(place, policy)._replace(beside=beside))

    def beginning(self, place: TopicPartition, policy: str) -> Seen:
        """Return where a partition's reading begins if it is sent for now."""
        start, end = self.ends(place)
        if policy == "none":
            return Seen("none", place, -1)
        if policy == "latest":
            return Seen("start", place, -1, lowest=end)
        return Seen("start", place, start if policy == "earliest" else -1)

    def ends(self, place: TopicPartition) -> tuple[int, int]:
        """Return start and readable end of a log, as it is now; zeros if there is none."""
        from kprod.broker.partition_transactions import readable_end  # noqa: PLC0415

        partition = self._world.cluster._kprod.engine.state.topics.partition(*place)
        if partition is None:
            return 0, 0
        return partition.log.log_start_offset, readable_end(partition, int(self.reads_committed))

    def epoch_before(self, place: TopicPartition, offset: int) -> int | None:
        """Return the leader epoch of the record before an offset; None if there is none."""
        partition = self._world.cluster._kprod.engine.state.topics.partition(*place)
        if partition is None or not partition.log.log_start_offset < offset:
            return None
        if offset > partition.log.log_end_offset:
            return None
        epoch: int = partition.log.epochs.epoch_at(offset - 1)
        return epoch if epoch >= 0 else None

    def places(self) -> list[TopicPartition]:
        """Return every partition that there is now, in order."""
        counts = dict(self._world.topics.counts)
        if stream := self.settings.get("stream", 0):
            counts[STREAM] = stream
        return [
            TopicPartition(topic, it) for topic in sorted(counts) for it in range(counts[topic])
        ]

    def assigned(self) -> list[TopicPartition]:
        """Return the assigned partitions, in order."""
        return sorted(self.parts.assignment.partitions)

    def _deserialize(self, value: Any) -> bytes:
        """Return a value as bytes; fail on some, once or twice each."""
        content = bytes(value)
        name = content.partition(b"|")[0]
        if not self._world.is_calm and zlib.crc32(name) % _BAD_SHARE == 0:
            self._failures[name] += 1
            if self._failures[name] <= 2:
                raise BadValueError("a value of the simulation is bad")
        return content


class Interceptor:
    """An interceptor of the application, with its habit.

    Args:
        world: World of the run.
        reader: The consumer that calls it.
        habit: "plain", "raises", "re-enters" or "closes".
    """

    def __init__(self, world: "World", reader: Reader, habit: str) -> None:
        self._world = world
        self._reader = reader
        self._habit = habit
        self._calls = 0

    def on_consume(self, records: list[Any]) -> list[Any]:
        """Return the records, after what the habit does."""
        self._calls += 1
        self._world.count(f"interceptor: {self._habit}")
        kind = self._world.threads
        if kind is not None and kind.held[kind.current()]:
            self._world.find("R6", "a lock is held while an interceptor runs")
        if self._habit == "raises" and self._calls % 3 == 0:
            raise BadValueError("an interceptor of the simulation raises")
        if self._habit == "re-enters":
            try:
                self._reader.consumer.poll(0)
            except kprod.KprodError as error:
                self._world.count(f"interceptor: {type(error).__name__}")
            else:
                self._world.find("R6", "a poll inside a poll was not rejected")
            for place in self._reader.assigned():
                self._reader.consumer.position(place, 0) if self._calls % 5 == 0 else None
        if self._habit == "closes" and self._calls == 4 and self._reader.is_threaded:
            self._reader.is_over = True
            self._reader.consumer.close(0)
        return records

    def close(self) -> None:
        """Take note."""
        self._world.count("interceptor was closed")
