"""The machine goes off at every call of a compaction: nothing is lost, nothing comes back."""

from typing import TYPE_CHECKING

import pytest

from kprod.broker.log.directory_store import DirectoryStore
from kprod.broker.log.file_deletion import delete_later
from kprod.broker.log.loading import LoadOptions, load_log
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment_rules import SegmentRules
from kprod.model import Record
from tests.broker.log.cleaning.histories import RETENTION_MS, History, visible
from tests.broker.log.crash_disk import CrashDisk, Stopped

if TYPE_CHECKING:
    from collections.abc import Callable

RULES = SegmentRules(index_interval_bytes=300)
# One in each run, the others in `make long`.
SEEDS = (2, *(pytest.param(seed, marks=pytest.mark.long) for seed in (0, 1)))
FIRST_SEED = 7


class Machine:
    """A disk, a log on it, and what must be there after a crash.

    Attributes:
        clean_calls: Calls of the disk that compactions made, at the end of a run.
    """

    def __init__(self, seed: int) -> None:
        """Write a history, everything flushed; nothing is compacted yet."""
        self.seed = seed
        self.disk = CrashDisk(seed)
        self.disk.make_directory("/orders-0")
        self.disk.sync_directory("/")
        self.disk.sync_directory("")
        self.store = DirectoryStore(self.disk, "/orders-0")
        log = PartitionLog(self.store, rules=RULES)
        self.later: list[Callable[[], object]] = []
        log.delete_files = delete_later(lambda _, action: self.later.append(action))
        self.history = History(log, FIRST_SEED + seed)
        self.write()

    def write(self) -> None:
        """Append batches, and flush them."""
        self.history.write(40)
        self.history.log.roll(self.history.now_ms)
        self.history.log.flush()

    def run(self) -> None:
        """Compact, write more, and compact again when horizons are over."""
        history = self.history
        self.round()
        while self.later:
            self.later.pop()()
        history.now_ms += RETENTION_MS
        self.round()

    def round(self) -> None:
        """Compact all; the map has room for few keys, so that there are several rounds."""
        while self.history.part().dirty_bytes or self.history.log.cleaned_offset < 0:
            for _ in self.history.round(buffer_bytes=200).run():
                pass
        # The tombstones' horizons are looked at again only when there is something dirty.
        self.history.log.cleaned_offset = -1

    def check(self) -> None:
        """Start again after a crash, twice; then compact to the end."""
        self.disk.crash()
        first = self.visible()
        self.disk.crash()
        assert self.visible() == first, "records served after a crash are lost after the next"
        assert_nothing_lost(self.history, first)
        names = self.store.names()
        assert not [it for it in names if it.endswith((".cleaned", ".swap"))], names
        self.history.log = self.load()
        self.history.check_producers()
        for _ in self.history.round().run():
            pass
        assert_nothing_lost(self.history, visible(self.history.log))

    def visible(self) -> list[Record]:
        """All records, as a new broker finds them."""
        return visible(self.load())

    def load(self) -> PartitionLog:
        """Load the log as after a kill; for every other seed, flushed bytes are trusted."""
        point = self.history.log.recovery_point if self.seed % 2 else 0
        loaded = load_log(self.store, LoadOptions(rules=RULES, recovery_point=point))
        assert loaded.cut_bytes == 0
        return loaded.log


def assert_nothing_lost(history: History, records: list[Record]) -> None:
    """Each record is as it was sent; of each key the newest is there, or its tombstone was due."""
    for record in records:
        assert record == history.sent[record.offset].record
    left = {it.offset for it in records}
    committed = [it for at, it in history.sent.items() if at not in history.aborted]
    newest = {it.record.key: it.record for it in committed}
    for key, record in newest.items():
        if record.offset in left:
            continue
        assert record.value is None, f"{record.offset}, the newest record of its key, is gone"
        older = [it for it in records if it.key == key and it.offset not in history.aborted]
        assert not older, f"{older[0].offset} is back, and its tombstone is gone"


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_every_stop_of_every_swap_loses_nothing(seed: int) -> None:
    """Each creation, write, sync, rename and removal of some rounds.

    No producer is forgotten either: its last batch, sent again, is a duplicate (KAFKA-12520).
    """
    machine = Machine(seed)
    before = machine.disk.calls
    machine.run()
    calls = machine.disk.calls
    assert calls - before > 100
    for stop_at in range(before + 1, calls + 1):
        machine = Machine(seed)
        machine.disk.stop_at = stop_at
        with pytest.raises(Stopped):
            machine.run()
        machine.check()
