"""Requests on the wire: times, versions, acks, half-written requests, memory in use."""

from collections.abc import Callable

import pytest

from kprod._core.record.batch_reader import BatchReader
from kprod.errors import (
    BufferTimeout,
    DeliveryTimeout,
    KprodTimeout,
    Persistence,
    UnsupportedVersion,
)
from kprod.model import Codec
from kprod.protocol.api import ApiKey
from tests.network.scripted import ALL_VERSIONS, MemoryTransport
from tests.producer.stage import Brokers, Stage

INVALID_RECORD = 87


def _speaking(newest: int) -> Callable[[Brokers], object]:
    def prepare(brokers: Brokers) -> None:
        brokers.versions = {**ALL_VERSIONS, ApiKey.PRODUCE: (0, newest)}

    return prepare


def _connection_to(stage: Stage, broker: int) -> MemoryTransport:
    """The newest open connection to a broker."""
    return [
        transport
        for transport in stage.transports
        if transport.address.port == 9_000 + broker and not transport.is_closed
    ][-1]


@pytest.mark.parametrize("newest", range(3, 14))
def test_each_produce_version_carries_the_records(newest: int) -> None:
    """The newest that both know; two topics, three partitions, each with its own answer."""
    stage = Stage({"a": [1, 1], "b": [1]}, prepare=_speaking(newest), linger_ms=5)
    futures = [stage.put(b"x", "a", 0), stage.put(b"y", "a", 1), stage.put(b"z", "b", 0)]
    stage.run(10)
    held = stage.take()
    assert held.request.version == newest
    assert held.request.body["acks"] == -1
    assert held.request.body["timeout_ms"] == 30_000
    assert held.request.body["transactional_id"] is None
    found = {(batch.topic, batch.partition): batch.raw[-2:-1] for batch in held.batches}
    assert found == {("a", 0): b"x", ("a", 1): b"y", ("b", 0): b"z"}
    held.respond_to_each(
        {
            ("a", 0): {"base_offset": 1},
            ("a", 1): {"base_offset": 2},
            ("b", 0): {"base_offset": 3},
        }
    )
    stage.run()
    assert [future.result(0).offset for future in futures] == [1, 2, 3]


@pytest.mark.parametrize("newest", [0, 2])
def test_a_broker_too_old_for_record_batches_is_named(newest: int) -> None:
    """Nothing is sent, so nothing is in the log."""
    stage = Stage(prepare=_speaking(newest))
    error = stage.send(b"v").exception(0)
    assert isinstance(error, UnsupportedVersion)
    assert error.persistence is Persistence.NOT_PERSISTED
    assert "PRODUCE" in str(error)


@pytest.mark.parametrize("newest", [6, 7])
def test_zstd_needs_version_7(newest: int) -> None:
    """Before KIP-110 brokers could not read it."""
    stage = Stage(prepare=_speaking(newest), compression_type="zstd")
    future = stage.send(b"v" * 1_000)
    if newest < 7:
        assert isinstance(future.exception(0), UnsupportedVersion)
        assert not stage.history
    else:
        batch = stage.answer().batch
        assert batch.raw[22] & 7 == Codec.ZSTD
        assert future.result(0).offset == 0


def test_acks_none_is_done_when_written() -> None:
    """Without a response to wait for there is no offset, and no limit in flight."""
    stage = Stage(acks="0", enable_idempotence=False)
    futures = [stage.send(b"%d" % number) for number in range(20)]
    assert [future.result(0).offset for future in futures] == [-1] * 20
    assert [held.request.body["acks"] for held in stage.history] == [0] * 20


def test_acks_none_half_written_is_possibly_persisted() -> None:
    """The connection goes in the middle; without retries that is the end of it."""
    stage = Stage(acks="0", enable_idempotence=False, retries=0)
    stage.send(b"first")
    _connection_to(stage, 1).room_bytes = 20
    future = stage.send(b"v" * 100)
    assert not future.done()
    stage.drop_connections(1)
    stage.run()
    error = future.exception(0)
    assert error is not None
    assert error.persistence is Persistence.POSSIBLY_PERSISTED


def test_acks_leader_asks_for_one() -> None:
    """Nothing but the number differs."""
    stage = Stage(acks="1", enable_idempotence=False)
    future = stage.send(b"v")
    assert stage.answer(0, 5).request.body["acks"] == 1
    assert future.result(0).offset == 5


def test_a_half_written_request_that_times_out_is_not_continued() -> None:
    """Its connection is closed; on the next one the whole request is sent (librdkafka 756)."""
    stage = Stage(request_timeout_ms=1_000)
    stage.fill_pipeline(1)
    stage.answer(0, 1)
    stalled = _connection_to(stage, 1)
    stalled.room_bytes = 100
    future = stage.send(b"v" * 10_000)
    behind = stage.send(b"behind")
    assert not stage.held
    stage.run(1_000)
    assert stalled.is_closed
    stalled.room_bytes = 1 << 20
    stage.run(1_000)
    assert stage.answer(0, 2).batch.count == 1
    assert stage.answer(0, 3).batch.sequence == 3
    assert (future.result(0).offset, behind.result(0).offset) == (2, 3)
    assert len(stalled.to_peer) == 100


def test_memory_of_an_expired_batch_is_not_reused_while_a_socket_reads_it() -> None:
    """KAFKA-19012: stalled socket, deadline in flight, second topic; bytes of a stay those of a.

    The pool poisons what it takes back, and is so small that the second topic must get the first
    one's chunks as soon as they are free.
    """
    stage = Stage(
        {"a": [1], "b": [2]},
        delivery_timeout_ms=2_000,
        request_timeout_ms=1_900,
        buffer_memory=32_768,
    )
    assert stage.producer._kprod.pool.poisons
    stage.send(b"warm", "a")
    value = b"A" * 1_500
    future = stage.send(value, "a")  # waits for the first batch, so its deadline comes early
    stage.run(500)
    stalled = _connection_to(stage, 1)
    stalled.room_bytes = 300
    stage.answer()
    assert stalled.room_bytes == 0
    stage.run(1_500)
    error = future.exception(0)
    assert isinstance(error, DeliveryTimeout)
    assert error.persistence is Persistence.POSSIBLY_PERSISTED
    for _ in range(12):
        stage.put(b"B" * 1_500, "b")
    stage.run()
    with pytest.raises(BufferTimeout):
        _fill(stage)
    stage.run()
    stalled.room_bytes = 1 << 20
    stage.run()
    requests = {held.batches[0].topic: held for held in stage.held}
    assert value in requests["a"].batch.raw
    assert _record_count(requests["a"].batch.raw) == 1
    for batch in requests["b"].batches:
        assert b"AAAA" not in batch.raw
    for held in list(stage.held):
        held.answer(0, 1)
    stage.held.clear()
    stage.run(1_000)


def _fill(stage: Stage) -> None:
    while True:
        stage.put(b"B" * 1_500, "b")


def _record_count(raw: bytes) -> int:
    """The number of records in one batch, whose checksum must be right."""
    (batch,) = BatchReader(raw, check_crc=True)
    return batch.record_count


def test_waiting_for_a_result_does_not_cut_linger() -> None:
    """As in Java: an application that wants one record out at once sets linger_ms=0, or flushes."""
    stage = Stage(linger_ms=1_000)
    future = stage.put(b"v")
    with pytest.raises(KprodTimeout):
        future.result(0)
    stage.run(999)
    assert not stage.history
    stage.run(2)
    assert len(stage.history) == 1
