"""A batch is split while an allocation fails: its records are settled all the same.

One allocation after another fails, in compiled code as well, from the moment when the parts are
made until the sender looks at its sockets again.
"""

from typing import Any

import pytest

from kprod.producer import delivery
from kprod.producer.batch import ProducerBatch
from kprod.producer.split import split
from tests.producer.stage import Stage

memory = pytest.importorskip("_testcapi", reason="this Python has no allocator that fails")

ALLOCATIONS = 80  # more than it takes to put the parts into the queue
MESSAGE_TOO_LARGE = 10
RECORDS = 6


@pytest.mark.parametrize("settings", [{}, {"enable_idempotence": False}], ids=["", "no sequences"])
def test_a_split_without_memory_settles_each_record_once(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    """Either the parts are sent, each on its own, or the batch fails as a whole."""
    failed_counts = [
        _failed_count(monkeypatch, allocation, settings) for allocation in range(ALLOCATIONS)
    ]
    assert {0, RECORDS} <= set(failed_counts)


def _failed_count(
    monkeypatch: pytest.MonkeyPatch, allocation: int, settings: dict[str, Any]
) -> int:
    """How many records of one batch fail if this allocation does."""
    stage = Stage(linger_ms=5, **settings)
    serve = stage.selector.serve

    def split_without_memory(batch: ProducerBatch) -> list[ProducerBatch]:
        parts = split(batch)
        memory.set_nomemory(allocation, allocation + 1)
        return parts

    def serve_with_memory() -> None:
        memory.remove_mem_hooks()
        serve()

    stage.selector.serve = serve_with_memory
    for number in range(RECORDS):
        stage.put(b"%d" % number * 100)
    stage.run(10)
    assert stage.held[0].batch.count == RECORDS
    with monkeypatch.context() as patch:
        patch.setattr(delivery, "split", split_without_memory)
        try:
            stage.answer(MESSAGE_TOO_LARGE)
            has_ended = False
        except MemoryError:  # outside of what can continue without memory: a sender ends there
            has_ended = True
        finally:
            memory.remove_mem_hooks()
    if has_ended:
        stage.close()
    for _ in range(0 if has_ended else RECORDS):
        stage.run(1_000)
        if stage.held:
            stage.answer()
    assert [value[:1] for value, _ in stage.settled] == [b"%d" % n for n in range(RECORDS)]
    failed_count = sum(error is not None for _, error in stage.settled)
    if not has_ended:
        stage.put(b"after")
        stage.run(10)
        stage.answer()
        assert stage.settled[-1] == (b"after", None)
    return failed_count
