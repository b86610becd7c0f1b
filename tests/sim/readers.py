"""The consumers of a run: they are made, operated, replaced, and judged at the end."""

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from kprod.model import TopicPartition
from tests.sim.caller import Caller
from tests.sim.log_book import History, LogBook
from tests.sim.plan import Entry
from tests.sim.reader import FIRST_NUMBER, Reader, Seen
from tests.sim.reader_ending import Drain, look_at_what_is_left
from tests.sim.reader_faults import Stream
from tests.sim.reader_plan import STREAM
from tests.sim.reader_workload import BESIDE, READINGS, assign, subscribe
from tests.sim.reading import Judge
from tests.sim.scheduler import MS

if TYPE_CHECKING:
    from tests.sim.world import World

_BEGIN: Entry = {"kind": "assign", "choice": 0xFFFF, "wait_ms": 0, "count": 0, "other": False}
_LONGEST_MS = 120_000
_TELLING = ("kprod.consumer.offset_reset", "kprod.consumer.log_faults")
"""Loggers that tell an operator where reading continues."""


class Readers:
    """The consumers of one run; none, if the plan has none.

    Args:
        world: World of the run.

    Attributes:
        book: The past contents of the logs.
        stream: The topic of other writers.
        open: The consumer in use; empty before and after.
        all: Every consumer of the run.
        end_ns: When reading must be over; 0 before the faults have ended.
    """

    def __init__(self, world: "World") -> None:
        self._world = world
        self.book = LogBook()
        self.stream = Stream(world)
        self.open: list[Reader] = []
        self.all: list[Reader] = []
        self.end_ns = 0
        self._callers: dict[bool, Caller] = {}

    @property
    def exist(self) -> bool:
        """Whether the plan has any."""
        return bool(self._world.plan.reader)

    def start(self, origin_ns: int) -> None:
        """Make the first one, and schedule its application's operations."""
        world = self._world
        if not self.exist:
            return
        if count := world.plan.reader.get("stream", 0):
            world.cluster.create_topic(STREAM, count)
        world.scheduler.at(origin_ns, self._make)
        for entry in world.plan.readings:
            at_ns = origin_ns + entry["at_ms"] * MS
            world.scheduler.at(at_ns, partial(self._operate, entry))

    def add(self, call: Callable[[], object], *, beside: bool = False) -> None:
        """Make a call in the thread that reads, or in another one."""
        if beside not in self._callers:
            self._callers[beside] = Caller(self._world.scheduler)
        self._callers[beside].add(call)

    def replace(self, reader: Reader, timeout_s: float) -> None:
        """Close a consumer, and let another take its place."""
        reader.end(timeout_s)
        if reader in self.open:
            self.open.remove(reader)
            if not self._world.is_calm:
                self._make()

    def drain(self) -> None:
        """Let the consumer in use read everything, and close."""
        world = self._world
        self.stream.end_all()
        self.end_ns = world.scheduler.now_ns + _LONGEST_MS * MS
        for caller in self._callers.values():
            caller.drop()
        for reader in self.open:
            drained = Drain(world, reader)
            if reader.is_threaded:
                self.add(drained.run)
            else:
                world.scheduler.after(0, drained.step)
        for caller in self._callers.values():
            caller.end()

    @property
    def are_reading(self) -> bool:
        """Whether a consumer is still open, or its application waits."""
        is_open = any(not reader.has_ended for reader in self.all)
        return is_open or any(not caller.is_over for caller in self._callers.values())

    def heal(self) -> None:
        """End the faults of the consumers' side."""
        for reader in self.all:
            reader.resolver.is_failing = False
            if reader.selector.sleeper is not None:
                reader.selector.sleeper.thaw()

    def judge(self) -> None:
        """Judge the records that were read, and the state that is left."""
        world = self._world
        if not self.exist:
            return
        if any(not caller.is_over for caller in self._callers.values()):
            world.find("R12", "a thread of the consumer's application waits for ever")
        look_at_what_is_left(world)
        for topic in self._topics():
            self.book.look(topic, world.cluster.batches(topic))
        for reader in self.all:
            judge = Judge(
                self.book,
                f"reader-{reader.number}",
                reads_committed=reader.reads_committed,
                begins_early=reader.policy == "earliest",
            )
            for finding in judge.judge(reader.seen):
                world.findings.append(finding)

    def note_restart(
        self, place: tuple[str, int], written: Sequence[bytes], served: Sequence[bytes]
    ) -> None:
        """Note what a log had before a restart, and has since."""
        if self.exist:
            history = self.book.now(place)
            history.look(written)
            if len(served) < len(written):
                history.cut(served)

    def look_at(self, place: TopicPartition) -> History:
        """Look at a partition's log now, and return its history."""
        history = self.book.now(place)
        partition = self._world.cluster._kprod.engine.state.topics.partition(*place)
        if partition is not None:
            history.look(self.stream.batches(partition))
        return history

    def _topics(self) -> list[str]:
        topics = sorted(self._world.topics.counts)
        return [*topics, STREAM] if self._world.plan.reader.get("stream") else topics

    def _make(self) -> None:
        world = self._world
        number = FIRST_NUMBER + len(self.all)
        reader = Reader(world, number)
        self.all.append(reader)
        self.open.append(reader)
        begin = subscribe if world.plan.reader["begin"] == "subscribe" else assign
        begin(world, reader, _BEGIN)

    def _operate(self, entry: Entry) -> None:
        beside = bool(entry["other"]) and entry["kind"] in BESIDE
        if self._world.plan.mode == "engine":
            self._act(entry)
        else:
            self.add(partial(self._act, entry), beside=beside)

    def _act(self, entry: Entry) -> None:
        if not self.open or self._world.is_calm:
            return
        reader = self.open[0]
        is_beside = bool(entry["other"]) and entry["kind"] in BESIDE and reader.is_threaded
        self._world.note(b"reading", entry["kind"].encode())
        READINGS[entry["kind"]](self._world, reader, entry | {"other": is_beside})

    def _hear(self, record: logging.LogRecord) -> None:
        args = record.args if isinstance(record.args, tuple) else ()
        text = record.getMessage()
        if "reading continues at offset" in text:
            topic, partition, offset = str(args[0]), int(str(args[1])), int(str(args[3]))
        elif "reading continues there" in text:
            words = str(args[0]).replace(",", "").split()
            topic, partition = words[4], int(words[6])
            offset = int(words[-1])
        else:
            return
        if len(args) > 1:
            self._world.count("reader told of a reset")
            self._world.count(f"reader: reset {str(args[4]).partition(':')[0]}")
        else:
            self._world.count("reader told of a cut")
        place = TopicPartition(topic, partition)
        for reader in self.all:
            if not reader.has_ended:
                self._check_reset(reader, place, offset, is_reset=len(args) > 1)
                reader.note(Seen("told", place, offset))

    def _check_reset(
        self, reader: Reader, place: TopicPartition, offset: int, *, is_reset: bool
    ) -> None:
        """R2: a reset goes where the policy says."""
        start = reader.ends(place)[0]
        if is_reset and reader.policy == "earliest" and offset > start:
            text = f"{place} was reset to {offset}; its log begins at {start}"
            self._world.find("R2", f"reader-{reader.number}: {text}")


class _Ear(logging.Handler):
    """Hears what consumers tell."""

    def __init__(self, hear: Callable[[logging.LogRecord], object]) -> None:
        super().__init__(logging.WARNING)
        self._hear = hear

    def emit(self, record: logging.LogRecord) -> None:
        """Pass on."""
        self._hear(record)


@contextmanager
def heard_log(readers: Readers) -> Generator[None]:
    """Hear where the consumers tell that they continue."""
    if not readers.exist:
        yield
        return
    ear = _Ear(readers._hear)
    loggers = [logging.getLogger(name) for name in _TELLING]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(ear)
        logger.setLevel(logging.WARNING)
        logger.propagate = readers._world.plan.raising_log
    try:
        yield
    finally:
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(ear)
            logger.setLevel(level)
            logger.propagate = propagate
