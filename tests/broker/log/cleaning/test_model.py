"""Compaction of random histories beside an oracle: what stays is what must, bit by bit (I5).

Histories have few keys, tombstones, all codecs, batches of one record and of forty, idempotent and
transactional producers with commits and aborts, clocks that jump; some maps have room for few keys.
Between two slices a reader sees each offset at most once, in order, and no survivor is missing
(I6). In memory and in a directory, there with a restart after each round.
"""

import pytest

from kprod.broker.log.directory_store import DirectoryStore
from kprod.broker.log.loading import LoadOptions, load_log
from kprod.broker.log.memory_store import MemoryStore
from kprod.broker.log.partition_log import PartitionLog
from kprod.broker.log.segment_rules import SegmentRules
from tests.broker.log.cleaning.histories import BUFFER_BYTES, History, visible
from tests.broker.log.crash_disk import CrashDisk

SEEDS_IN_ONE = 25
SAMPLE = 4
ALL = 80


def run(seed: int) -> int:
    """Write and compact several times; how many records went."""
    disk = CrashDisk(seed)
    disk.make_directory("/orders-0")
    store = DirectoryStore(disk, "/orders-0") if seed % 2 else MemoryStore()
    history = History(
        PartitionLog(store, rules=SegmentRules(index_interval_bytes=seed % 3 * 300)), seed
    )
    buffer_bytes = history.rng.choice([1, 200, BUFFER_BYTES, BUFFER_BYTES])
    gone = 0
    for _ in range(4):
        history.write(25)
        history.log.roll(history.now_ms)
        summary = history.clean(buffer_bytes)
        gone += summary.read_records - summary.kept_records
        assert not [it for it in store.names() if it.endswith((".cleaned", ".swap"))]
        if isinstance(store, DirectoryStore):
            check_restart(history, store)
        history.now_ms += history.rng.choice([1, 500, 2_000])
    return gone


def check_restart(history: History, store: DirectoryStore) -> None:
    """A broker that was killed finds the same records, and knows the same producers."""
    history.log.flush()
    loaded = load_log(store, LoadOptions(rules=SegmentRules(index_interval_bytes=300)))
    assert loaded.cut_bytes == 0
    assert visible(loaded.log) == visible(history.log)
    assert loaded.log.log_end_offset == history.log.log_end_offset
    history.check_producers(loaded.log)


def check_seeds(part: int) -> None:
    """Run some histories; something must have gone in most."""
    first = part * SEEDS_IN_ONE
    gone = [run(seed) for seed in range(first, first + SEEDS_IN_ONE)]
    assert sum(it > 10 for it in gone) > SEEDS_IN_ONE // 2


@pytest.mark.slow
@pytest.mark.parametrize("part", range(SAMPLE))
def test_survivors_are_those_of_the_oracle(part: int) -> None:
    """A hundred histories."""
    check_seeds(part)


@pytest.mark.long
@pytest.mark.parametrize("part", range(SAMPLE, ALL))
def test_survivors_are_those_of_the_oracle_in_many_histories(part: int) -> None:
    """All seeds below 2,000."""
    check_seeds(part)
