"""The machine that runs all brokers of a run: its disk, its power, and the losses of a crash.

A plan with a disk keeps its logs in a directory of a disk that loses unsynced writes. Each
partition has one copy, so a crash is one of the whole cluster, which is started again from that
directory. The oracle reads the disk itself: it knows which batches were written and which were
synced, whatever the broker believes.

Source: I17 and I18 of the reliability page's invariants.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from crc32c import crc32c

from kprod.broker import EmbeddedCluster, EmbeddedConfig
from tests.broker.log.crash_disk import CrashDisk, File, Stopped
from tests.sim.network import FIRST_PORT
from tests.sim.oracle import LostPlace, name_of, read_logs

if TYPE_CHECKING:
    from tests.sim.plan import Entry
    from tests.sim.world import World

_T = TypeVar("_T")

DIRECTORY = "/kept"
_HEADER_BYTES = 61
_STEP_CALLS = 40
_CLOSE_CALLS = 60
_LOAD_CALLS = 30
# Bits of a fault's choice; the higher ones count calls of the disk.
_IN_A_CALL, _THEN_LOSES, _IS_SILENT, _WHILE_LOADING = 1, 2, 4, 8
_LOSES_PAGES = 0b110000
_COUNT_SHIFT = 8

Batches = Mapping[tuple[str, int], Sequence[bytes]]
"""By topic and partition."""


class Machine:
    """The machine of one run.

    Args:
        world: World of the run.

    Attributes:
        disk: The disk; None where the logs are in memory.
        lost: Copies of records that a crash was allowed to take.
    """

    def __init__(self, world: "World") -> None:
        self._world = world
        self.disk = CrashDisk(world.plan.seed) if world.plan.disk else None
        self.lost: set[LostPlace] = set()
        self._calls_left = 0  # of the disk, until the power goes off; 0 for never
        self._next: Entry = {}  # the fault that it is then

    def boot(self, topics: Mapping[str, int] | None = None) -> EmbeddedCluster:
        """Make the brokers, on the ports that they have had.

        Args:
            topics: Partitions by name; None for those on the disk.

        Returns:
            The brokers, not open.
        """
        world, plan = self._world, self._world.plan
        groups = plan.groups or plan.crew
        return EmbeddedCluster(
            brokers=plan.brokers,
            topics=topics,
            config=EmbeddedConfig(
                auto_create_topics=False,
                port=FIRST_PORT,
                group_min_session_timeout_ms=1,
                group_initial_rebalance_delay_ms=groups.get("initial_ms", 0),
                offsets_topic_num_partitions=groups.get("shards", 1),
                offsets_commit_timeout_ms=groups.get("write_ms", 5_000),
                **plan.disk,
            ),
            clock=world.scheduler.clock,
            network=world.network,
            data_dir=None if self.disk is None else DIRECTORY,
            disk=self.disk,
        )

    def step(self, now_ms: int) -> int | None:
        """Step the brokers; the power may go off in the middle.

        Args:
            now_ms: The present time.

        Returns:
            Time of the next step.
        """
        if not self._calls_left:
            return self._world.cluster.step(now_ms)
        before = self._disk.calls
        try:
            due_ms = self._until_call(self._calls_left, lambda: self._world.cluster.step(now_ms))
        except Stopped:
            self._world.count("power went off in a call of the disk")
            self._crash(self._next)
            return self._world.cluster.step(now_ms)
        self._calls_left -= self._disk.calls - before
        return due_ms

    def keep_power(self) -> None:
        """Have no crash from now on."""
        self._calls_left = 0

    def crash(self, entry: "Entry") -> None:
        """Switch the power off or kill the brokers, now or in a later call of the disk."""
        if entry["choice"] & _IN_A_CALL:
            self._calls_left, self._next = _count(entry, _STEP_CALLS), entry
        else:
            self._crash(entry)

    def checkpoint(self) -> None:
        """Write the recovery points, which the brokers' own task does once a minute."""
        for directory in self._world.cluster._kprod.engine.state.logs._directories:  # type: ignore[attr-defined]
            directory.write_recovery_points()

    def restart(self, entry: "Entry") -> None:
        """Close the brokers and start them; the power may go off meanwhile, or just afterwards."""
        before = self._written()
        close = self._world.cluster.close
        try:
            if entry["choice"] & _IN_A_CALL:
                self._until_call(_count(entry, _CLOSE_CALLS), close)
            else:
                close()
        except Stopped:
            self._world.count("power went off in close")
            self._crash(entry)
            return
        if entry["choice"] & _THEN_LOSES:
            self._disk.crash()
        self._start(entry, before, before, before)

    @property
    def _disk(self) -> CrashDisk:
        assert self.disk is not None
        return self.disk

    def _until_call(self, count: int, action: Callable[[], _T]) -> _T:
        """Do something; the power goes off in one of the disk's calls, if there are as many."""
        self._disk.stop_at = self._disk.calls + count
        try:
            return action()
        finally:
            self._disk.stop_at = None

    def _crash(self, entry: "Entry") -> None:
        world, choice = self._world, entry["choice"]
        self._calls_left = 0
        if choice & _IS_SILENT:  # else each client hears at once that its connection has ended
            for link in world.network.live_links():
                link.go_silent()
        world.cluster.kill()
        before, synced = self._written(), self._synced()
        if choice & _LOSES_PAGES:
            self._disk.crash()
            self._start(entry, before, synced, synced)
        else:  # the process is killed, and the machine continues
            world.count("brokers were killed")
            self._start(entry, before, before, synced)

    def _start(self, entry: "Entry", before: Batches, kept: Batches, synced: Batches) -> None:
        """Start the brokers, and compare what they serve with what they must have.

        Args:
            entry: The fault.
            before: Batches that were written.
            kept: Those of them that must still be there.
            synced: Those that must be there even if the power goes off while loading.
        """
        world = self._world
        if entry["choice"] & _WHILE_LOADING:
            cluster, kept = self.boot(), synced
            try:
                self._until_call(_count(entry, _LOAD_CALLS), cluster.open)
            except Stopped:
                world.count("power went off while loading")
            cluster.kill()
            self._disk.crash()
        world.cluster = world.topics.cluster = self.boot()
        world.cluster.open()
        world.network.conditions.is_refusing = True
        world.later(
            entry["for_ms"], lambda: setattr(world.network.conditions, "is_refusing", False)
        )
        if world.cluster.loaded is not None and world.cluster.loaded.cut_bytes:
            world.count("torn batch was cut off")
        self._compare(before, kept)
        world.network.broker_has_work()

    def _compare(self, before: Batches, kept: Batches) -> None:
        """I17, I18: no synced batch is gone; those served were written, and stay."""
        world, synced = self._world, self._synced()
        digest = 0
        for topic, partitions in ((it, world.cluster.batches(it)) for it in world.topics.counts):
            for partition, served in partitions.items():
                place = topic, partition
                digest = zlib.crc32(b"".join(served), digest)
                where, written = f"{topic}-{partition} after a restart", before[place]
                self._world.readers.note_restart(place, written, served)
                if served != written[: len(served)]:
                    world.find("I18", f"{where} has other batches than were written")
                elif len(served) < len(kept[place]):
                    text = f"has {len(served)} batches, and {len(kept[place])} were synced"
                    world.find("I17", f"{where} {text}")
                if synced[place] != served:
                    text = f"serves {len(served)} batches, of which {len(synced[place])} are synced"
                    world.find("I18", f"{where} {text}")
                self._note_lost(partition, written[len(served) :])
                self._look_up(place, served)
        world.note(b"started", b"%d" % digest)

    def _look_up(self, place: tuple[str, int], served: Sequence[bytes]) -> None:
        """I18: a batch in the middle is found by its offset and by its time."""
        if not served:
            return
        found = [(_number(it, 0, 8), _number(it, 35, 43)) for it in served]
        offset, time_ms = found[len(found) // 2]
        log = self._world.cluster._kprod.engine.partition(*place).log
        end = log.log_end_offset
        pieces = log.read(offset, limit_offset=end, max_bytes=1)
        if b"".join(pieces) != served[len(found) // 2]:
            self._world.find("I18", f"{place} does not find offset {offset} after a restart")
        first = next(it for it, largest_ms in found if largest_ms >= time_ms)
        at = next(it.base_offset for it in log.batches_at(time_ms))
        if at != first:
            self._world.find("I18", f"{place} finds {at} for {time_ms}, and not {first}")

    def _note_lost(self, partition: int, gone: Sequence[bytes]) -> None:
        """Note what the application may find missing: nothing, if each batch is synced at once."""
        if gone and self._world.plan.disk["flush_messages"] > 1:
            self._world.count("crash took written batches")
            self.lost |= {
                (name_of(stored.value), partition, stored.offset)
                for stored in read_logs({0: gone})[0]
            }

    def _written(self) -> Batches:
        """Read what the operating system has."""
        return self._on_disk(lambda _, file: bytes(file.content))

    def _synced(self) -> Batches:
        """Read what the disk has, whatever happens."""
        names = self._disk.synced_names

        def content(path: str, file: File) -> bytes:
            is_there = names.get(path) is file and path.rpartition("/")[0] in names
            return file.synced if is_there else b""

        return self._on_disk(content)

    def _on_disk(self, content: Callable[[str, File], bytes]) -> Batches:
        files = {path: file for path, file in self._disk.names.items() if path.endswith(".log")}
        found = {}
        for topic, count in self._world.topics.counts.items():
            for partition in range(count):
                start = f"{DIRECTORY}/{topic}-{partition}/"
                segments = [
                    (path, file)
                    for path, file in sorted(files.items())
                    if path.startswith(start) and file is not None
                ]
                pieces = ((_base_of(path), content(path, file)) for path, file in segments)
                found[topic, partition] = list(_batches(pieces))
        return found


def _count(entry: "Entry", highest: int) -> int:
    """Return a number from 1 on that a fault has drawn."""
    return 1 + int(entry["choice"] >> _COUNT_SHIFT) % highest


def _base_of(path: str) -> int:
    return int(path.rpartition("/")[2].removesuffix(".log"))


def _batches(segments: Iterator[tuple[int, bytes]]) -> Iterator[bytes]:
    """Read a log's whole batches, up to the first that is torn or missing."""
    end = 0
    for base, content in segments:
        if base != end:
            return
        at = 0
        while len(content) - at >= _HEADER_BYTES:
            size = 12 + _number(content, at + 8, at + 12)
            batch = content[at : at + size]
            if len(batch) < size or crc32c(batch[21:]) != _number(batch, 17, 21):
                return
            yield batch
            at += size
            end = _number(batch, 0, 8) + _number(batch, 23, 27) + 1


def _number(batch: bytes, start: int, end: int) -> int:
    return int.from_bytes(batch[start:end], "big")
