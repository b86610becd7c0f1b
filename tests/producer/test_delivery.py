"""Responses: which batch they settle, the order of settling, and odd responses."""

from typing import TYPE_CHECKING

import pytest

from kprod.errors import BrokerError, DeliveryTimeout, KprodError, Persistence
from kprod.producer import delivery
from tests.producer.stage import Brokers, Stage, topic_id_of

if TYPE_CHECKING:
    from kprod import RecordFuture

NOT_LEADER = 6
INVALID_RECORD = 87
APPENDED_BUT_FEW_REPLICAS = 20


def _without_topic_ids(brokers: Brokers) -> None:
    brokers.has_topic_ids = False


def test_answers_of_an_old_broker_are_told_apart_by_name() -> None:
    """Before version 13 the decoded topic id is zero in every topic, and means nothing."""
    stage = Stage({"a": [1], "b": [1]}, prepare=_without_topic_ids, linger_ms=5)
    futures = [stage.put(b"A", "a"), stage.put(b"B", "b")]
    stage.run(10)
    held = stage.take()
    assert held.request.version == 12
    held.respond_to_each({("a", 0): {"base_offset": 10}, ("b", 0): {"base_offset": 20}})
    stage.run()
    assert [(f.result(0).topic, f.result(0).offset) for f in futures] == [("a", 10), ("b", 20)]


def test_errors_of_an_old_broker_are_told_apart_by_name() -> None:
    """A response with an error is read another way than one that takes every batch."""
    stage = Stage({"a": [1], "b": [1]}, prepare=_without_topic_ids, linger_ms=5)
    futures = [stage.put(b"A", "a"), stage.put(b"B", "b")]
    stage.run(10)
    held = stage.take()
    assert held.request.version == 12
    held.respond_to_each({("a", 0): {"base_offset": 10}, ("b", 0): {"error_code": INVALID_RECORD}})
    stage.run()
    assert futures[0].result(0).offset == 10
    error = futures[1].exception(0)
    assert isinstance(error, BrokerError)
    assert error.code == INVALID_RECORD


def test_answers_by_topic_id() -> None:
    """From version 13 on the request's own ids say which topic is meant."""
    stage = Stage({"a": [1], "b": [1]}, linger_ms=5)
    futures = [stage.put(b"A", "a"), stage.put(b"B", "b")]
    stage.run(10)
    held = stage.take()
    assert held.request.version == 13
    assert {t["topic_id"] for t in held.request.body["topic_data"]} == {
        topic_id_of("a"),
        topic_id_of("b"),
    }
    held.respond_to_each({("b", 0): {"base_offset": 20}, ("a", 0): {"base_offset": 10}})
    stage.run()
    assert [future.result(0).offset for future in futures] == [10, 20]


@pytest.mark.parametrize("body", [{"responses": []}, {"responses": [{"name": "a"}]}])
def test_an_answer_that_names_no_partition_settles_nothing(body: dict[str, object]) -> None:
    """Error 0 and no partition is no success (franz-go): the same bytes come again."""
    stage = Stage({"a": [1]}, prepare=_without_topic_ids)
    future = stage.send(b"v", "a")
    first = stage.take()
    first.reply(body)
    stage.run()
    assert not future.done()
    stage.run(200)
    again = stage.take()
    assert again.batch == first.batch
    again.answer(INVALID_RECORD)
    stage.run()
    error = future.exception(0)
    assert error is not None
    assert error.persistence is Persistence.POSSIBLY_PERSISTED


def test_an_answer_counts_only_for_the_request_it_belongs_to() -> None:
    """An OK for a partition that the request did not carry is not kept (kafkajs 1798)."""
    stage = Stage({"orders": [1, 1]}, linger_ms=5)
    futures = [stage.put(b"A", partition=0), stage.put(b"B", partition=1)]
    stage.run(10)
    stage.take().respond_to_each(
        {("orders", 0): {"base_offset": 3}, ("orders", 1): {"error_code": 3}}
    )
    stage.run(150)
    later = stage.put(b"C", partition=0)
    again = stage.take()
    assert [batch.partition for batch in again.batches] == [1]
    again.respond_to_each({("orders", 0): {"base_offset": 3}, ("orders", 1): {"error_code": 3}})
    stage.run(3)
    assert futures[0].result(0).offset == 3
    assert not later.done()
    assert not futures[1].done()


def test_callbacks_run_in_order_though_a_later_batch_is_answered_first() -> None:
    """The first must come again; the second's OK waits for it, as `POSSIBLY_PERSISTED`."""
    stage = Stage()
    stage.fill_pipeline(3)
    stage.settled.clear()
    stage.answer(APPENDED_BUT_FEW_REPLICAS)
    stage.answer(0, 2)
    stage.answer(INVALID_RECORD)
    assert stage.settled == []
    stage.run(200)
    stage.answer(0, 1)
    stage.answer(0, 2)
    stage.answer(INVALID_RECORD)
    assert [value for value, _ in stage.settled] == [b"0", b"1", b"2"]
    errors = [error for _, error in stage.settled]
    assert errors[:2] == [None, None]
    assert isinstance(errors[2], BrokerError)
    assert errors[2].persistence is Persistence.NOT_PERSISTED


def test_without_idempotence_each_answer_counts_at_once() -> None:
    """Asking again about a batch that was taken would double it."""
    stage = Stage(enable_idempotence=False, acks="1")
    stage.fill_pipeline(2)
    stage.settled.clear()
    stage.answer(NOT_LEADER)
    stage.answer(0, 1)
    assert stage.settled == [(b"1", None)]
    stage.run(200)
    stage.answer(0, 2)
    assert stage.settled == [(b"1", None), (b"0", None)]
    assert len(stage.history) == 4


def test_deadlines_of_one_millisecond_pass_in_the_order_of_sending() -> None:
    """Batches without a leader, opened at the same time, expire oldest first."""
    stage = Stage({"orders": [-1]}, delivery_timeout_ms=1_000, request_timeout_ms=500, batch_size=0)
    for number in range(6):
        stage.put(b"%d" % number)
    stage.run(1_001)
    assert [value for value, _ in stage.settled] == [b"%d" % number for number in range(6)]
    for _, error in stage.settled:
        assert isinstance(error, DeliveryTimeout)
        assert error.persistence is Persistence.NOT_PERSISTED
        assert "no leader" in str(error)


def test_a_record_sent_by_the_callback_of_an_expired_batch_is_a_new_one() -> None:
    """The open batch is closed before its callbacks run; nothing more gets into it (KAFKA-4557)."""
    stage = Stage(delivery_timeout_ms=1_000, request_timeout_ms=500, linger_ms=400)
    stage.brokers.silent.update({1, 2, 3})
    stage.drop_connections()
    again: list[RecordFuture] = []
    stage.producer.send(
        "orders", b"v", partition=0, on_delivery=lambda _, __: again.append(stage.put(b"again"))
    )
    stage.run(1_500)
    assert not again[0].done()
    stage.run(1_000)
    assert [value for value, _ in stage.settled] == [b"again"]


def test_an_answer_that_kprod_fails_on_ends_its_batch_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the partition would wait for a response for ever, and with it every new epoch."""

    def fail(_: object) -> None:
        raise MemoryError("no memory for the parts")

    monkeypatch.setattr(delivery, "split", fail)
    stage = Stage(linger_ms=5)
    futures = [stage.put(b"%d" % number) for number in range(2)]
    stage.run(10)
    stage.answer(10)
    error = futures[0].exception(0)
    assert type(error) is KprodError
    assert error.persistence is Persistence.POSSIBLY_PERSISTED
    assert isinstance(error.__cause__, MemoryError)
    after = stage.put(b"after")
    stage.run(10)
    assert stage.answer(0, 5).batch.epoch == 1
    assert after.result(0).offset == 5


def test_errors_of_single_records_are_theirs() -> None:
    """KIP-467: the listed record has its own text; the others learn that they are sound."""
    stage = Stage(linger_ms=5)
    futures = [stage.put(b"%d" % number) for number in range(3)]
    stage.run(10)
    stage.take().answer(
        INVALID_RECORD,
        record_errors=[{"batch_index": 1, "batch_index_error_message": "no key"}],
        error_message="one of them is bad",
    )
    stage.run(0)
    texts = [str(future.exception(0)) for future in futures]
    assert ["no key" in text for text in texts] == [False, True, False]
    assert ["nothing is wrong with this record" in text for text in texts] == [True, False, True]


@pytest.mark.parametrize("in_flight", [1, 3, 5])
def test_a_lost_connection_leaves_every_outcome_open(in_flight: int) -> None:
    """All come again in order, with the same bytes, and what fails then may be in the log."""
    stage = Stage()
    futures = stage.fill_pipeline(in_flight)
    sent = [held.batch for held in stage.held]
    stage.drop_connections()
    stage.run(3_000)
    for number in range(in_flight):
        held = stage.take()
        assert held.batch == sent[number]
        held.answer(0, 1 + number)
        stage.run(300)
    assert [future.result(0).offset for future in futures] == list(range(1, 1 + in_flight))


def test_a_batch_that_was_never_written_is_not_persisted() -> None:
    """The connection goes before the first byte: the deadline's error says so."""
    stage = Stage(delivery_timeout_ms=1_000, request_timeout_ms=500)
    stage.send(b"first")
    stage.answer()
    for transport in stage.transports:
        transport.io_error = ConnectionResetError("reset by the stage")
    stage.brokers.silent.update({1, 2, 3})
    future = stage.put(b"v")
    stage.run(1_500)
    error = future.exception(0)
    assert isinstance(error, DeliveryTimeout)
    assert error.persistence is Persistence.NOT_PERSISTED
