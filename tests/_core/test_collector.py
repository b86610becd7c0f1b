"""The objects of a batch that the cycle collector traverses, and those that it need not."""

import gc
import sys
from typing import Any

from kprod._core.collector import pause, resume, resume_in_child, untrack
from kprod._core.memory.chunk_pool import ChunkChain, ChunkPool
from kprod._core.outcome.batch_result import BatchResult
from kprod._core.send.bulk_account import BulkAccount
from kprod._core.send.bulk_share import BatchShare
from kprod._core.send.partition_appender import PartitionAppender
from kprod.errors import KprodError
from kprod.producer.batch import ProducerBatch


def _batch() -> ProducerBatch:
    pool = ChunkPool(1 << 16)
    chunk = pool.try_chunk()
    assert chunk is not None
    queue: Any = PartitionAppender("orders", 0)
    return ProducerBatch(queue, ChunkChain(pool, [chunk]), 1 << 20, 77)


def test_untracked_objects_are_passed_over() -> None:
    """Once is as good as twice; what the collector never walks is left as it is."""
    untracked: list[object] = []
    for thing in (untracked, untracked, 7, "text"):
        untrack(thing)
    assert not gc.is_tracked(untracked)
    gc.collect()


def test_a_batch_that_waits_has_nothing_for_the_collector() -> None:
    """Neither itself nor what it is made of, open or closed."""
    batch = _batch()
    parts: list[object] = [batch, batch.result, batch.builder, batch.builder.chain]
    assert not any(map(gc.is_tracked, parts))
    batch.builder.try_append(1, None, b"value")
    assert not gc.is_tracked(batch.close(0))


def test_a_result_is_walked_again_once_something_may_lead_back_to_it() -> None:
    """An account that listens, or an error; a success leads nowhere."""
    listened, failed, taken = (BatchResult("orders", partition) for partition in range(3))
    BatchShare(BulkAccount(), listened).watch()
    failed.complete(error=KprodError("no"))
    taken.complete(0, -1)
    assert list(map(gc.is_tracked, (listened, failed, taken))) == [True, True, False]


def test_collecting_is_paused_until_the_last_resumes() -> None:
    """Two producers may; from CPython 3.12 on nothing is collected inside compiled code anyway."""
    is_paused = sys.version_info < (3, 12)
    assert gc.isenabled()
    pause()
    pause()
    resume()
    assert gc.isenabled() is not is_paused
    resume()
    assert gc.isenabled()
    pause()
    pause()
    resume_in_child()
    assert gc.isenabled()
    resume()
    assert gc.isenabled()


def test_a_disabled_collector_stays_disabled() -> None:
    """The application may have switched it off."""
    gc.disable()
    try:
        pause()
        resume()
        assert not gc.isenabled()
    finally:
        gc.enable()
