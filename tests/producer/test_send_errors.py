"""Records that `send` rejects: an error with the figures, nothing appended, no memory lost."""

from typing import Any

import pytest

from kprod import threads
from kprod.errors import (
    BufferTimeout,
    KprodError,
    MetadataTimeout,
    RecordTooLarge,
    SerializationError,
    UnknownPartition,
)
from tests.producer.bench import TOPIC, Bench


def _fail(_: object) -> bytes:
    raise ZeroDivisionError("no such thing")


@pytest.mark.parametrize(
    ("config", "arguments", "error", "match"),
    [
        ({}, {"partition": 3}, UnknownPartition, "has no partition 3: its last is 2"),
        (
            {"max_request_size": 5_000},
            {"value": b"x" * 5_000},
            RecordTooLarge,
            r"takes up to 5086 bytes encoded, and max_request_size=5000 allows no more",
        ),
        (
            {"buffer_memory": 40_000},
            {"value": b"x" * 33_000},
            RecordTooLarge,
            r"and buffer_memory=40000 allows no more",
        ),
        (
            {"value_serializer": _fail},
            {},
            SerializationError,
            "the value_serializer failed for 'orders': no such thing",
        ),
        ({"key_serializer": _fail}, {"key": 1}, SerializationError, "the key_serializer failed"),
        (
            {"value_serializer": str},
            {},
            SerializationError,
            "the value_serializer returned str for 'orders': it must return bytes",
        ),
        ({}, {"topic": "no topic!"}, ValueError, r"'no topic!' has ' ' at index 2"),
        ({}, {"topic": "unseen"}, MetadataTimeout, "within max_block_ms=0"),
    ],
)
def test_rejections(
    config: dict[str, Any], arguments: dict[str, Any], error: type[Exception], match: str
) -> None:
    """The pool is as before, the sender hears nothing, and the next send is accepted."""
    bench = Bench(**config)
    with pytest.raises(error, match=match):
        bench.producer.send(**{"topic": TOPIC, "value": b"v", **arguments})
    assert bench.pool.lent_bytes == 0
    assert not bench.accumulator.inbox
    bench.producer.close()


def test_a_full_buffer_says_how_full() -> None:
    """With the request, the limit, and the setting that helps."""
    bench = Bench(leaders=(-1,), buffer_memory=32_768)
    bench.send(0, b"x" * 20_000)
    with pytest.raises(
        BufferTimeout, match=r"needs 16384 more bytes.*; 0 of buffer_memory=32768.*max_block_ms=0"
    ):
        bench.send(0, b"x" * 20_000)
    assert bench.producer.close(0) == 1
    assert bench.pool.lent_bytes == 0


def test_a_callback_never_waits_for_what_only_its_own_thread_brings() -> None:
    """On the sender's thread: an unknown topic and a full buffer are errors at once."""
    bench = Bench(max_block_ms=60_000)
    rejected: list[type[KprodError]] = []

    def again(*_: object) -> None:
        try:
            bench.producer.send("unseen", b"v")
        except KprodError as error:
            rejected.append(type(error))

    bench.producer._kprod.thread._ident = threads.current_ident()
    bench.producer.send(TOPIC, b"v", partition=0, on_delivery=again)
    bench.run(turns=5)
    bench.producer._kprod.thread._ident = None
    assert rejected == [MetadataTimeout]
    bench.producer.close()
